"""Explanations next to a comparison: settings that differ between the sides, wrong data, and incomplete logs."""

from collections.abc import Iterable, Sequence

from busbw.comparability import without_run_identity
from busbw.compare.result import SettingDifference
from busbw.logs.log import Log, Row, Table
from busbw.units import count_text, size_text


def find_setting_differences(tables_a: Sequence[Table], tables_b: Sequence[Table]) -> tuple[SettingDifference, ...]:
    """Returns the facts that differ between the sides: libraries, programs, hosts, settings, environment variables."""
    facts_a, facts_b = _facts_by_name(tables_a), _facts_by_name(tables_b)
    names = [*facts_a, *(name for name in facts_b if name not in facts_a)]
    return tuple(
        SettingDifference(what=name, a=facts_a.get(name), b=facts_b.get(name))
        for name in names
        if facts_a.get(name) != facts_b.get(name)
    )


def _facts_by_name(tables: Sequence[Table]) -> dict[str, str]:
    """Returns the facts that the tables of one side state, by name. Commas join different values of one fact."""
    facts: dict[str, dict[str, None]] = {}
    for table in tables:
        table_facts = {
            "library": table.library,
            "program": table.program,
            "program version": table.program_version,
            "hosts": ", ".join(table.hosts) or None,
            **without_run_identity(table.settings),
            **{f"environment {name}": value for name, value in without_run_identity(table.environment).items()},
        }
        for name, value in table_facts.items():
            if value is not None:
                facts.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in facts.items()}


class WrongRows:
    """Counts the rows with wrong data of one side."""

    def __init__(self) -> None:
        self._row_count = self._wrong_count = 0
        self._first_wrong: Row | None = None

    def add(self, row: Row) -> None:
        """Counts a row."""
        self._row_count += 1
        for figure in row.figures.values():
            if figure.wrong_elements:
                self._wrong_count += 1
                self._first_wrong = self._first_wrong or row
                break

    def sentences(self, name: str, tables: Iterable[Table]) -> list[str]:
        """Returns a sentence about wrong data on one side. Empty if no wrong data are known.

        Args:
            name: Name of the side.
            tables: Tables of the rows. Their footers count only if no row has wrong data.
        """
        if self._first_wrong is not None:
            count = f"{self._wrong_count} of {count_text(self._row_count, 'row')}"
            row = self._first_wrong
            title = " ".join(filter(None, [size_text(row.size_bytes), row.dtype, row.redop]))
            return [f"{name} has wrong data in {count}, first at {title} (line {row.line})."]
        if claimed_count := sum(table.claimed_out_of_bounds or 0 for table in tables):
            return [f"The footer of {name} counts {count_text(claimed_count, 'result')} out of bounds (wrong data)."]
        return []


def warnings_of_log(name: str, log: Log) -> list[str]:
    """Returns the reader's warnings about a log, and warnings about refused rows and early ends."""
    sentences = [f"{name}: {sentence}" for sentence in log.warnings]
    if log.refused:
        first_refused = log.refused[0]
        sentences.append(
            f"{name}: {count_text(len(log.refused), 'row')} of {log.candidate_rows} could not be read, "
            f"first in line {first_refused.line}: {first_refused.reason}"
        )
    if early_end_text := next((table.early_end_text for table in log.tables if table.early_end_text), ""):
        sentences.append(f"{name}: {early_end_text}.")
    return sentences
