"""What a page shows, before any of it is HTML: texts, tables and finished pictures."""

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from busbw.judge import Grade

MARKS: dict[Grade, str] = {
    "GOOD": "\N{CHECK MARK}",
    "SLOW": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "BROKEN": "\N{BALLOT X}",
}
"""Beside the word, so that a grade is never a colour alone."""


@dataclass(frozen=True)
class Badge:
    """A word that is a verdict."""

    word: str
    kind: Literal["good", "slow", "broken", "unsure"]
    mark: str

    @classmethod
    def of(cls, grade: Grade) -> "Badge":
        """The badge of a grade."""
        kinds: dict[Grade, Literal["good", "slow", "broken", "unsure"]] = {
            "GOOD": "good",
            "SLOW": "slow",
            "BROKEN": "broken",
            "UNSURE": "unsure",
        }
        return cls(grade, kinds[grade], MARKS.get(grade, "?"))


@dataclass(frozen=True)
class NamedValue:
    """A name and what it is."""

    name: str
    value: str


@dataclass(frozen=True)
class ColumnHead:
    """The head of a column."""

    name: str
    is_number: bool = True


@dataclass(frozen=True)
class DataTable:
    """A table to read and to copy."""

    caption: str
    columns: tuple[ColumnHead, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    sample: Markup
    label: str


@dataclass(frozen=True)
class Picture:
    """A drawing with all that makes it readable without seeing it."""

    title: str
    text: str
    """What it shows, in words."""
    svg: Markup
    keys: tuple[LegendEntry, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Sparkline:
    """A configuration as small as a word."""

    svg: Markup
    text: str


@dataclass(frozen=True)
class BandEvidence:
    """The verdict on one band of sizes, with its evidence."""

    band: str
    badge: Badge
    sizes: str
    worst_at: str
    measured: str
    expected: str
    ratio: str
    reason: str


@dataclass(frozen=True)
class VerdictView:
    """The verdict on one configuration."""

    badge: Badge
    title: str
    yardstick: str
    bands: tuple[BandEvidence, ...]
    notes: tuple[NamedValue, ...]
    """Why, what it looks like, what to do, what else to know; in the order in which they are read."""
    glance: Sparkline | None = None

    @property
    def reason(self) -> str:
        """The weightiest sentence."""
        return self.notes[0].value if self.notes else ""


@dataclass(frozen=True)
class ConfigurationSection:
    """One collective with its type, operator and ranks: its variants and placements stand in one picture."""

    anchor: str
    title: str
    verdicts: tuple[VerdictView, ...]
    pictures: tuple[Picture, ...]
    grid: DataTable | None
    """Null where no row was read."""
    omissions: tuple[str, ...] = ()
    """What a picture could not show, and why."""


@dataclass(frozen=True)
class TableSection:
    """One run or one table of a log."""

    anchor: str
    title: str
    facts: tuple[NamedValue, ...]
    topology: Picture
    warnings: tuple[str, ...]
    configurations: tuple[ConfigurationSection, ...]
    settings: tuple[NamedValue, ...]
    environment: tuple[NamedValue, ...]


@dataclass(frozen=True)
class ComparisonSection:
    """B against A."""

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
    """One file or run."""

    anchor: str
    title: str
    coverage: str
    tables: tuple[TableSection, ...]
    warnings: tuple[str, ...]
    refused: DataTable | None
    comparison: ComparisonSection | None


@dataclass(frozen=True)
class SummaryLine:
    """One configuration, or several of one log that say the same, in the list at the top."""

    badge: Badge
    title: str
    anchor: str
    bands: tuple[tuple[str, Badge], ...]
    reason: str
    glance: Sparkline | None = None
    also: tuple[str, ...] = ()
    """The titles of the others."""


@dataclass(frozen=True)
class SummarySection:
    """The lines of one log."""

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
    summary: tuple[SummarySection, ...]
    comparison: ComparisonSection | None
    logs: tuple[LogSection, ...]
    warnings: tuple[str, ...]
    version: str
    is_redacted: bool
