"""Markdown tables for issues and wikis: one per table of a log."""

from collections.abc import Sequence
from typing import BinaryIO

from busbw.logs import PLACEMENT_WORDS, Figure, Log, Row, Table
from busbw.units import count_text, size_text

SUFFIX = ".md"

_CONFIGURATION_FIELDS = ("collective", "dtype", "redop", "root", "ranks", "group", "cycle", "variant")


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """Writes a heading and the table. Values that all rows share are in the heading instead of a column."""
    parts = [part for log in logs for table in log.tables for part in (_heading(log, table), _table(table))]
    out.write(("\n\n".join(filter(None, parts)) + "\n").encode("utf-8", errors="replace"))


def _heading(log: Log, table: Table) -> str:
    title = _plain(table.title or table.program or table.collective or log.source)
    shared = [f"{name} {value}" for name in _CONFIGURATION_FIELDS if (value := _shared(table, name)) not in (None, "")]
    hosts = count_text(len(table.hosts), "host") if table.hosts else None
    facts = [*shared, hosts, ", ".join(table.devices), table.library, table.start_time]
    return f"### {title}\n\n" + _plain("; ".join(fact for fact in facts if fact))


def _shared(table: Table, name: str) -> object:
    """Returns the value that all rows share; None if they differ or if it is a default group or cycle."""
    values = {getattr(row, name) for row in table.rows}
    value = next(iter(values)) if len(values) == 1 else None
    return None if value == 0 and name in ("group", "cycle") else value


def _table(table: Table) -> str:
    if not table.rows:
        return "No row."
    varying = [name for name in _CONFIGURATION_FIELDS if len({getattr(row, name) for row in table.rows}) > 1]
    placements = [name for name in PLACEMENT_WORDS if any(name in row.figures for row in table.rows)]
    header = ["size", *varying]
    for placement in placements:
        suffix = f" {PLACEMENT_WORDS[placement]}" if len(placements) > 1 else ""
        header += [f"time{suffix} (us)", f"algbw{suffix} (GB/s)", f"busbw{suffix} (GB/s)", f"wrong{suffix}"]
    lines = [header, ["---:"] * len(header)]
    for row in table.rows:
        lines.append(
            [
                size_text(row.size_bytes),
                *(_plain(str(value)) if (value := getattr(row, name)) is not None else "" for name in varying),
                *(cell for name in placements for cell in _cells(row, name)),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row, placement: str) -> list[str]:
    figure = next((figure for name, figure in row.figures.items() if name == placement), None) or Figure()
    wrong = "" if figure.wrong_elements is None else str(figure.wrong_elements)
    if figure.check == "not_applicable":
        wrong = "N/A"
    return [_number(figure.time_us), _number(figure.algbw_gbps), _number(figure.busbw_gbps), wrong]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _plain(text: str) -> str:
    """Escapes text of a log, so that Markdown does not interpret it."""
    text = "".join(mark for mark in " ".join(text.split()) if mark.isprintable())
    for mark in "\\`*_{}[]<>#|":
        text = text.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return text
