"""What is to be started, and what starting it takes."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One run of one of the engine's programs."""

    program: Path
    arguments: tuple[str, ...]
    records: Path
    """Where rank 0 writes the record; a new file."""


@dataclass(frozen=True)
class Rendered:
    """What a launcher made of a job; rendering touched nothing."""

    command: tuple[str, ...]
    files: dict[Path, str] = field(default_factory=dict)
    """Files to write before the command runs, by path."""

    def text(self) -> str:
        """The command as a shell would take it."""
        return shlex.join(self.command)


@dataclass(frozen=True)
class Watch:
    """What is called while a job runs."""

    on_line: Callable[[bytes], None]
    """With each line of rank 0's stdout."""
    on_wait: Callable[[], None]
    """At least once a second."""
