"""Differences of settings between two sides, and warnings about either side."""

from collections.abc import Iterable, Sequence

from busbw.compare.result import Difference
from busbw.logs import Log, Row, Table
from busbw.units import count_text, size_text

# Settings that differ between any two runs and explain no change.
_PER_RUN = {"run_id", "start_time", "output_file", "records"}


def differences(a: Sequence[Table], b: Sequence[Table]) -> tuple[Difference, ...]:
    """Returns settings, libraries, hosts and environment variables that differ between the sides."""
    facts_a, facts_b = _facts(a), _facts(b)
    names = [*facts_a, *(name for name in facts_b if name not in facts_a)]
    return tuple(
        Difference(what=name, a=facts_a.get(name), b=facts_b.get(name))
        for name in names
        if facts_a.get(name) != facts_b.get(name)
    )


def _facts(tables: Sequence[Table]) -> dict[str, str]:
    facts: dict[str, list[str]] = {}
    for table in tables:
        pairs = {
            "library": table.library,
            "program": table.program,
            "program version": table.program_version,
            "hosts": ", ".join(table.hosts) or None,
            **table.settings,
            **{f"environment {name}": value for name, value in table.environment.items()},
        }
        for name, value in pairs.items():
            if value is not None and name not in _PER_RUN:
                facts.setdefault(name, []).append(value)
    return {name: ", ".join(dict.fromkeys(values)) for name, values in facts.items()}


def wrong_data(name: str, tables: Iterable[Table]) -> list[str]:
    """Returns sentences about wrong data on one side. Empty if none is known or nothing was checked."""
    tables = tuple(tables)
    rows = [row for table in tables for row in table.rows]
    wrong = [row for row in rows if any(figure.wrong_elements for figure in row.figures.values())]
    if wrong:
        return [
            f"{name} has wrong data in {len(wrong)} of {count_text(len(rows), 'row')}, first at {_row_text(wrong[0])}."
        ]
    claimed = sum(table.claimed_out_of_bounds or 0 for table in tables)
    if claimed:
        return [f"The footer of {name} counts {count_text(claimed, 'result')} out of bounds (wrong data)."]
    return []


def _row_text(row: Row) -> str:
    title = " ".join(filter(None, [size_text(row.size_bytes), row.dtype, row.redop]))
    return f"{title} (line {row.line})"


def log_warnings(name: str, log: Log) -> list[str]:
    """Returns the reader's warnings about a log, and warnings about refused rows and early ends."""
    found = [f"{name}: {sentence}" for sentence in log.warnings]
    if log.refused:
        first = log.refused[0]
        found.append(
            f"{name}: {count_text(len(log.refused), 'row')} of {log.candidate_rows} could not be read, "
            f"first in line {first.line}: {first.reason}"
        )
    if any(table.complete is False for table in log.tables):
        found.append(f"{name}: it contains a run that ended early.")
    return found
