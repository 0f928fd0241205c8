"""What else is different between two sides, and what is wrong with either: everything but the figures."""

from collections.abc import Iterable, Sequence

from busbw.compare.result import Difference
from busbw.logs import Log, Row, Table
from busbw.units import count_text, size_text

# They differ between any two runs and explain nothing.
_INDIVIDUAL = {"run_id", "start_time", "output_file", "records"}


def differences(a: Sequence[Table], b: Sequence[Table]) -> tuple[Difference, ...]:
    """Settings, libraries, hosts and environment that are not the same on both sides."""
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
            if value is not None and name not in _INDIVIDUAL:
                facts.setdefault(name, []).append(value)
    return {name: ", ".join(dict.fromkeys(values)) for name, values in facts.items()}


def wrong_data(name: str, tables: Iterable[Table]) -> list[str]:
    """Sentences about wrong data on one side; empty where there is none or nothing was checked."""
    tables = tuple(tables)
    rows = [row for table in tables for row in table.rows]
    wrong = [row for row in rows if any(figure.wrong_elements for figure in row.figures.values())]
    if wrong:
        return [
            f"{name} has wrong data in {len(wrong)} of {count_text(len(rows), 'row')}, first at {_where(wrong[0])}."
        ]
    claimed = sum(table.claimed_out_of_bounds or 0 for table in tables)
    if claimed:
        return [f"{name} says of itself that {count_text(claimed, 'result')} were out of bounds (wrong data)."]
    return []


def _where(row: Row) -> str:
    what = " ".join(filter(None, [size_text(row.size_bytes), row.dtype, row.redop]))
    return f"{what} (line {row.line})"


def log_warnings(name: str, log: Log) -> list[str]:
    """What a reader had to say about a log, and what it did not take."""
    said = [f"{name}: {sentence}" for sentence in log.warnings]
    if log.refused:
        first = log.refused[0]
        said.append(
            f"{name}: {count_text(len(log.refused), 'row')} of {log.candidate_rows} could not be read, "
            f"first in line {first.line}: {first.reason}"
        )
    if any(table.complete is False for table in log.tables):
        said.append(f"{name}: a run in it did not come to its end.")
    return said
