"""What a reader makes of a log."""

from dataclasses import dataclass, field

from busbw.records import Row


@dataclass(frozen=True)
class Log:
    """Rows in the order of the log, and what was not understood."""

    rows: list[Row]
    complete: bool
    """Whether the log has its end; a run that was killed has none."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each line that looks like a row and was not taken."""
