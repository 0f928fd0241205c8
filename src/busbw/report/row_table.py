"""Table of a log's rows with the expected ranges."""

from collections.abc import Callable, Sequence

from busbw.expect import Estimate
from busbw.logs import PLACEMENT_WORDS, PLACEMENTS, Figure, Placement, Row
from busbw.report.page import ColumnHead, DataTable
from busbw.units import count_text

MAX_ROWS = 2000
"""Maximum number of rows in one table, because browsers become slow with more."""


def row_table(
    caption: str, rows: Sequence[Row], expected: Callable[[Row], Estimate | None], remark: str = ""
) -> DataTable:
    """Makes a table with one line per row. Empty columns are omitted. `remark` is a note on the expected ranges."""
    shown = rows[:MAX_ROWS]
    placements = [name for name in PLACEMENTS if any(name in row.figures for row in shown)]
    estimates = [expected(row) for row in shown]
    columns: list[tuple[ColumnHead, list[str]]] = [
        (ColumnHead("line"), [str(row.line) for row in shown]),
        (ColumnHead("variant", is_number=False), [row.variant or "" for row in shown]),
        (ColumnHead("cycle"), [str(row.cycle) for row in shown] if any(row.cycle for row in shown) else []),
        (ColumnHead("size B"), [str(row.size_bytes) for row in shown]),
        (ColumnHead("count"), [_integer(row.count) for row in shown]),
        (ColumnHead("type", is_number=False), [row.dtype or "" for row in shown]),
        (ColumnHead("redop", is_number=False), [row.redop or "" for row in shown]),
        (ColumnHead("root"), [_integer(row.root) for row in shown]),
    ]
    for placement in placements:
        columns += _placement(placement, [row.figures.get(placement, Figure()) for row in shown])
    columns += [
        (ColumnHead("claimed speed-up"), [_number_text(row.claimed_speedup) for row in shown]),
        # Two columns each, because spreadsheets read "5-10" as a date.
        (ColumnHead("healthy busbw GB/s, from"), [_range_text(one.busbw_gbps.low) if one else "" for one in estimates]),
        (ColumnHead("to"), [_range_text(one.busbw_gbps.high) if one else "" for one in estimates]),
        (ColumnHead("healthy time us, from"), [_range_text(one.time_us.low) if one else "" for one in estimates]),
        (ColumnHead("to"), [_range_text(one.time_us.high) if one else "" for one in estimates]),
    ]
    kept = [(column, cells) for column, cells in columns if any(cells)]
    hidden = len(rows) - len(shown)
    notes = [f"{count_text(hidden, 'more row')} not shown here; `busbw export csv` writes all."] if hidden else []
    if remark:
        notes.append(f"Healthy: {remark}.")
    return DataTable(
        caption=caption,
        columns=tuple(column for column, _ in kept),
        rows=tuple(zip(*(cells for _, cells in kept), strict=True)),
        note=" ".join(notes),
    )


def _placement(placement: Placement, figures: Sequence[Figure]) -> list[tuple[ColumnHead, list[str]]]:
    suffix = PLACEMENT_WORDS[placement]

    def column(name: str, cells: list[str]) -> tuple[ColumnHead, list[str]]:
        return ColumnHead(f"{name}, {suffix}" if suffix else name), cells

    return [
        column("time us", [_number_text(one.time_us, is_derived="time_us" in one.derived) for one in figures]),
        column("CPU time us", [_number_text(one.cpu_time_us) for one in figures]),
        column("device time us", [_number_text(one.device_time_us) for one in figures]),
        column("launch time us", [_number_text(one.launch_time_us) for one in figures]),
        column("algbw GB/s", [_number_text(one.algbw_gbps, is_derived="algbw_gbps" in one.derived) for one in figures]),
        column("busbw GB/s", [_number_text(one.busbw_gbps, is_derived="busbw_gbps" in one.derived) for one in figures]),
        column("wrong", [_wrong(one) for one in figures]),
        column("median us", [_number_text(one.stats.median_us) if one.stats else "" for one in figures]),
        column("p99 us", [_number_text(one.stats.p99_us) if one.stats else "" for one in figures]),
    ]


def _wrong(figure: Figure) -> str:
    """Text of the check. Not checked, not applicable and zero are different results."""
    if figure.wrong_elements is not None:
        return str(figure.wrong_elements)
    return {"not_checked": "not checked", "not_applicable": "n/a"}.get(figure.check, "")


def _number_text(value: float | None, *, is_derived: bool = False) -> str:
    """Text with six significant digits. An asterisk marks a derived value."""
    if value is None:
        return ""
    return f"{value:.6g}{'*' if is_derived else ''}"


def _integer(value: int | None) -> str:
    return "" if value is None else str(value)


def _range_text(value: float) -> str:
    """Text of an end of an expected range, with three significant digits."""
    return f"{float(f'{value:.3g}'):.6g}"
