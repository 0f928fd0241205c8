"""Markdown tables for issues and wikis: one per table of a log."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from busbw.judge import JudgedConfiguration
from busbw.logs.log import PLACEMENT_WORDS, Figure, Log, Table
from busbw.units import count_text, size_text

SUFFIX = ".md"
HAS_VERDICTS = False

_CONFIGURATION_FIELDS = ("collective", "dtype", "redop", "root", "ranks", "group", "cycle", "variant")
"""Fields of a row that are columns if their values vary. Otherwise the heading has the value."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes a heading and the table. Values that all rows share are in the heading instead of a column."""
    separator = ""
    for log in logs:
        for table in log.tables:
            values = _distinct_values(table)
            out.write(_encode(f"{separator}{_heading(log, table, values)}\n\n"))
            out.writelines(map(_encode, _table_lines(table, values)))
            separator = "\n"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def _distinct_values(table: Table) -> dict[str, set[object]]:
    """Returns the different values of each configuration field, and of `placement`."""
    values: dict[str, set[object]] = {field: set() for field in (*_CONFIGURATION_FIELDS, "placement")}
    for row in table.rows:
        for field in _CONFIGURATION_FIELDS:
            values[field].add(getattr(row, field))
        values["placement"].update(row.figures)
    return values


def _heading(log: Log, table: Table, values: dict[str, set[object]]) -> str:
    title = _escape_markdown(table.title or table.program or table.collective or log.source)
    shared_texts = [
        f"{field} {value}"
        for field in _CONFIGURATION_FIELDS
        if (value := _shared_value(values[field], field)) not in (None, "")
    ]
    hosts = count_text(len(table.hosts), "host") if table.hosts else None
    facts = [*shared_texts, hosts, ", ".join(table.devices), table.library, table.start_time]
    return f"### {title}\n\n" + _escape_markdown("; ".join(fact for fact in facts if fact))


def _shared_value(values: set[object], field: str) -> object:
    """Returns the value that all rows share; None if they differ. None for group 0 and cycle 0, the defaults."""
    value = next(iter(values)) if len(values) == 1 else None
    return None if value == 0 and field in ("group", "cycle") else value


def _table_lines(table: Table, values: dict[str, set[object]]) -> Iterator[str]:
    if not table.rows:
        yield "No row.\n"
        return
    varying_fields = [field for field in _CONFIGURATION_FIELDS if len(values[field]) > 1]
    placements = [placement for placement in PLACEMENT_WORDS if placement in values["placement"]]
    header = ["size", *varying_fields]
    for placement in placements:
        suffix = f" {PLACEMENT_WORDS[placement]}" if len(placements) > 1 else ""
        header += [f"time{suffix} (us)", f"algbw{suffix} (GB/s)", f"busbw{suffix} (GB/s)", f"wrong{suffix}"]
    yield _line(header)
    yield _line(["---:"] * len(header))
    for row in table.rows:
        cells = [size_text(row.size_bytes)]
        cells += [_value_cell(getattr(row, field)) for field in varying_fields]
        for placement in placements:
            cells += _figure_cells(row.figures.get(placement, Figure()))
        yield _line(cells)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _value_cell(value: object) -> str:
    return "" if value is None else _escape_markdown(str(value))


def _figure_cells(figure: Figure) -> list[str]:
    wrong_text = "" if figure.wrong_elements is None else str(figure.wrong_elements)
    if figure.check == "not_applicable":
        wrong_text = "N/A"
    return [_number_text(figure.time_us), _number_text(figure.algbw_gbps), _number_text(figure.busbw_gbps), wrong_text]


def _number_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _escape_markdown(text: str) -> str:
    """Escapes text of a log, so that Markdown does not interpret it."""
    text = "".join(character for character in " ".join(text.split()) if character.isprintable())
    for character in "\\`*_{}[]#|":
        text = text.replace(character, f"\\{character}")
    return text.replace("<", "&lt;").replace(">", "&gt;")
