"""Summarizes any number of verdicts in a bounded number of lines, for `busbw check`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text

from busbw.judge import GRADES, Grade, JudgedConfiguration, Verdict
from busbw.terminal import labeled_lines, terminal_width
from busbw.units import plain

GRADE_STYLES: dict[Grade, str] = {
    "GOOD": "bold green",
    "SLOW": "bold yellow",
    "BROKEN": "bold red",
    "UNSURE": "bold cyan",
}
GRADE_WIDTH = 7
"""Width of the column of grades."""
MAX_LINES = 100
"""Maximum number of listed verdicts. If there are more, groups of verdicts are listed, at most this number."""
_MAX_TABLES = 4
"""Maximum number of tables that a line names."""
_MIN_EQUAL_REASONS = 10
"""Minimum number of adjacent verdicts with the same reason that share a line."""


@dataclass
class _Group:
    """Verdicts that share a line. They have the same log, title, grade and kind of reason.

    Example of a line: "SLOW   all_reduce in tables 1, 2, 5, 7 and 93 more; in table 1: 64 MiB takes twice the time".
    """

    first: JudgedConfiguration
    """The line shows the reason of this verdict. The reasons of the other verdicts may have other figures."""
    tables: list[int] = field(default_factory=list)
    """Numbers of the first tables with such a verdict."""
    count: int = 0

    def add(self, configuration: JudgedConfiguration) -> None:
        """Adds a verdict."""
        self.count += 1
        if len(self.tables) < _MAX_TABLES:
            self.tables.append(configuration.table)


class VerdictSummary:
    """Collects any number of verdicts, and keeps a bounded number of them."""

    def __init__(self) -> None:
        self.grades: Counter[Grade] = Counter()
        """Number of verdicts by grade, in the order of their first verdicts."""
        self.worst: JudgedConfiguration | None = None
        """First verdict with the worst grade. None without verdicts."""
        self._first_verdicts: list[JudgedConfiguration] = []
        self._groups: dict[Grade, dict[tuple[object, ...], _Group]] = {grade: {} for grade in GRADES}
        """First groups of each grade, by log, title and kind of reason."""
        self._late_rank_texts: list[tuple[JudgedConfiguration, str]] = []
        """Texts of the first late ranks, with their verdicts."""
        self._late_rank_count = 0

    @property
    def count(self) -> int:
        """Number of verdicts."""
        return self.grades.total()

    def is_worst(self, verdict: Verdict) -> bool:
        """True if a verdict is worse than all verdicts so far."""
        return self.worst is None or GRADES.index(verdict.grade) < GRADES.index(self.worst.grade)

    def add(self, configuration: JudgedConfiguration) -> None:
        """Adds a verdict."""
        verdict = configuration.verdict
        self.grades[verdict.grade] += 1
        if self.is_worst(verdict):
            self.worst = configuration
        if len(self._first_verdicts) < MAX_LINES:
            self._first_verdicts.append(configuration)
        groups = self._groups[verdict.grade]
        key = (configuration.log, verdict.title, verdict.reason_kind)
        if key not in groups and len(groups) < MAX_LINES:
            groups[key] = _Group(configuration)
        if key in groups:
            groups[key].add(configuration)
        self._late_rank_count += len(verdict.late_ranks)
        free_count = MAX_LINES - len(self._late_rank_texts)
        self._late_rank_texts += [(configuration, late.text) for late in verdict.late_ranks[:free_count]]

    def lines(self, *, has_several_logs: bool) -> Iterator[Text]:
        """Yields the counts of the grades and the lines of the verdicts.

        The verdicts on one log have the order of the log. The verdicts on several logs, and groups, are listed worst
        first.

        Args:
            has_several_logs: True if the verdicts are on several logs. Each line then names its log.
        """
        has_groups = self.count > MAX_LINES
        counts_worst_first = {grade: self.grades[grade] for grade in GRADES if grade in self.grades}
        counts = counts_worst_first if has_several_logs or has_groups else self.grades
        yield Text(_counts_text(counts), style="bold")
        if has_groups:
            yield from self._group_lines(counts_worst_first, has_several_logs=has_several_logs)
            return
        for _, adjacent in groupby(in_order(self._first_verdicts, worst_first=has_several_logs), key=_reason_key):
            yield from _lines_with_one_reason(list(adjacent), has_several_logs=has_several_logs)

    def _group_lines(self, counts: Mapping[Grade, int], *, has_several_logs: bool) -> Iterator[Text]:
        """Yields a line for each group, and a line with the counts of the verdicts that are in no shown group."""
        groups = [group for grade in GRADES for group in self._groups[grade].values()][:MAX_LINES]
        for group in groups:
            title = title_of(group.first, has_several_logs=has_several_logs)
            yield from _verdict_lines(group.first, f"{title}{_tables_text(group)}" if group.count > 1 else title)
        shown: Counter[Grade] = Counter()
        for group in groups:
            shown[group.first.grade] += group.count
        hidden = {grade: count - shown[grade] for grade, count in counts.items() if count > shown[grade]}
        if hidden:
            yield Text(f"and {_counts_text(hidden)}; `busbw check --json` has all verdicts", style="yellow")

    def late_rank_texts(self, *, has_several_logs: bool) -> list[str]:
        """Returns a sentence for each late rank, at most MAX_LINES, and the number of further late ranks."""
        texts = [
            f"{title_of(configuration, has_several_logs=has_several_logs)}: {text}"
            for configuration, text in self._late_rank_texts
        ]
        hidden_count = self._late_rank_count - len(texts)
        if hidden_count:
            texts.append(f"and {hidden_count:,} more; `busbw check --json` has all of them")
        return texts


def in_order(judged: Sequence[JudgedConfiguration], *, worst_first: bool) -> Iterator[JudgedConfiguration]:
    """Yields the verdicts by grade, the worst first, or in the order of `judged`."""
    if not worst_first:
        yield from judged
        return
    for grade in GRADES:
        yield from (configuration for configuration in judged if configuration.grade == grade)


def title_of(configuration: JudgedConfiguration, *, has_several_logs: bool) -> str:
    """Returns the title of a verdict, with its log if there are several."""
    title = configuration.verdict.title
    return f"{configuration.log}: {title}" if has_several_logs else title


def _counts_text(counts: Mapping[Grade, int]) -> str:
    return ", ".join(f"{count} {grade}" for grade, count in counts.items())


def _tables_text(group: _Group) -> str:
    """Returns the tables of a group, as in " in tables 1, 2 and 3 more; in table 1".

    The end of the text names the table of the reason that follows in the line.
    """
    tables = ", ".join(map(str, group.tables))
    hidden_count = group.count - len(group.tables)
    more = f" and {hidden_count:,} more" if hidden_count else ""
    return f" in tables {tables}{more}; in table {group.tables[0]}"


def _reason_key(configuration: JudgedConfiguration) -> tuple[object, ...]:
    return configuration.log, configuration.grade, configuration.verdict.reasons[:1]


def _lines_with_one_reason(judged: Sequence[JudgedConfiguration], *, has_several_logs: bool) -> Iterator[Text]:
    """Yields a line for each verdict, or for many verdicts one line with all titles and the common reason.

    All verdicts have the same log, grade and first reason.
    """
    first = judged[0]
    if first.verdict.reasons and len(judged) >= _MIN_EQUAL_REASONS:
        other_titles = dict.fromkeys(configuration.verdict.title for configuration in judged)
        other_titles.pop(first.verdict.title)
        titles = "; ".join([title_of(first, has_several_logs=has_several_logs), *other_titles])
        yield from _verdict_lines(first, f"{len(judged)} verdicts ({titles})")
        return
    for configuration in judged:
        yield from _verdict_lines(configuration, title_of(configuration, has_several_logs=has_several_logs))


def _verdict_lines(configuration: JudgedConfiguration, title: str) -> Iterator[Text]:
    """Yields the grade, the title and the first reason, wrapped to the terminal width."""
    verdict = configuration.verdict
    label = f"{verdict.grade:<{GRADE_WIDTH}}"
    text = plain(": ".join([title, *verdict.reasons[:1]]))
    yield from labeled_lines(label, text, terminal_width(), label_style=GRADE_STYLES[verdict.grade])
