"""Types of a page, independent of HTML: texts, tables and finished pictures. `build` makes them for `render`.

An anchor is the id of an HTML element that links refer to. A badge shows a grade.
"""

from dataclasses import dataclass

from markupsafe import Markup

from busbw.judge import Grade

MARKS: dict[Grade, str] = {
    "GOOD": "\N{CHECK MARK}",
    "SLOW": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "BROKEN": "\N{BALLOT X}",
}
"""Mark next to the word, so that color is not the only indication of a grade."""


@dataclass(frozen=True)
class Badge:
    """A grade as a colored word with a mark."""

    word: str
    kind: str
    """CSS class: good, slow, broken or unsure."""
    mark: str

    @classmethod
    def of(cls, grade: Grade) -> "Badge":
        """Makes the badge of a grade."""
        return cls(grade, grade.lower(), MARKS.get(grade, "?"))


@dataclass(frozen=True)
class NamedValue:
    """A name and its value."""

    name: str
    value: str


@dataclass(frozen=True)
class ColumnHead:
    """Heading of a column."""

    name: str
    is_number: bool = True


@dataclass(frozen=True)
class DataTable:
    """A table with caption and note."""

    caption: str
    columns: tuple[ColumnHead, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    sample: Markup
    """Small drawing of the line or mark."""
    label: str


@dataclass(frozen=True)
class Picture:
    """A drawing with title, alternative text, legend and note."""

    title: str
    alt_text: str
    """Alternative text that describes the drawing."""
    svg: Markup
    """The drawing. Its value axis is linear if there is a `log_svg`."""
    legend: tuple[LegendEntry, ...] = ()
    note: str = ""
    log_svg: Markup | None = None
    """The same drawing with a logarithmic value axis, which the reader can switch to. None without a switch."""
    is_wide: bool = False
    """True if the drawing has the width of the page."""


@dataclass(frozen=True)
class Sparkline:
    """Small curve without axes, shown within a line of text, and its description in words."""

    svg: Markup
    text: str


@dataclass(frozen=True)
class BandEvidence:
    """The verdict on one band of sizes, with its evidence. `sizes` to `distance` are texts with units."""

    band: str
    badge: Badge
    sizes: str
    worst_at: str
    measured: str
    expected: str
    distance: str
    """Distance of the measured from the typical figure: '-19 %'."""
    reason: str


@dataclass(frozen=True)
class VerdictView:
    """The verdict on one configuration."""

    badge: Badge
    title: str
    yardstick: str
    """Name of the expectation or reference that the configuration is judged by."""
    bands: tuple[BandEvidence, ...]
    notes: tuple[NamedValue, ...]
    """Reasons, likely causes, advice and further notes, in reading order."""
    sparkline: Sparkline | None = None
    obstacle: str | None = None
    """Kind of the reason for which no figure could be judged. None if figures were judged."""
    worst_ratio: float | None = None
    """Greatest ratio of measured to typical time. None if no figure was judged."""

    @property
    def reason(self) -> str:
        """The most important reason. Empty without notes."""
        return self.notes[0].value if self.notes else ""


@dataclass(frozen=True)
class ConfigurationSection:
    """One collective with its type, operator and ranks. All variants and placements share the pictures."""

    anchor: str
    title: str
    verdicts: tuple[VerdictView, ...] = ()
    pictures: tuple[Picture, ...] = ()
    grid: DataTable | None = None
    """Table of rows. None if no row was read."""
    omissions: tuple[str, ...] = ()
    """Sentences on rows that the pictures omit, and on facts that are unknown."""
    is_open: bool = False
    """True if the table of rows is visible at once."""


@dataclass(frozen=True)
class TableSection:
    """One table of a log: the rows of one run."""

    anchor: str
    title: str
    facts: tuple[NamedValue, ...]
    configurations: tuple[ConfigurationSection, ...]
    warnings: tuple[str, ...] = ()
    settings: tuple[NamedValue, ...] = ()
    environment: tuple[NamedValue, ...] = ()
    picture: Picture | None = None
    """Picture beside the facts."""


@dataclass(frozen=True)
class ComparisonSection:
    """Comparison of side B against side A."""

    anchor: str
    title: str
    sides: tuple[NamedValue, ...]
    counts: tuple[NamedValue, ...]
    pictures: tuple[Picture, ...]
    grids: tuple[DataTable, ...]
    wrong_data: tuple[str, ...]
    sentences: tuple[str, ...]
    differences: DataTable | None


@dataclass(frozen=True)
class LogSection:
    """One log."""

    anchor: str
    title: str
    coverage: str
    """Text on the numbers of rows that were read and refused."""
    tables: tuple[TableSection, ...]
    warnings: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    """Sentences on findings in the log that may explain its speed."""
    refused: DataTable | None = None
    comparison: ComparisonSection | None = None


@dataclass(frozen=True)
class SummaryLine:
    """Line of the summary: one configuration, or several of one log with the same result."""

    badge: Badge
    title: str
    anchor: str
    bands: tuple[tuple[str, Badge], ...]
    """Name and badge of each band."""
    reason: str
    sparkline: Sparkline | None = None
    worst_ratio: float | None = None
    """`VerdictView.worst_ratio`."""
    also: tuple[str, ...] = ()
    """Titles of the other configurations in this line."""


@dataclass(frozen=True)
class SummarySection:
    """Summary lines of one log."""

    title: str
    anchor: str
    lines: tuple[SummaryLine, ...]


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    headline: str
    badge: Badge
    counts: tuple[tuple[Badge, int], ...]
    """Number of configurations with each grade."""
    summary: tuple[SummarySection, ...]
    logs: tuple[LogSection, ...]
    comparison: ComparisonSection | None = None
    warnings: tuple[str, ...] = ()
    is_redacted: bool = False
