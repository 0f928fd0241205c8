"""The rows as the log has them, beside what a healthy system reaches: a table to read and to copy."""

from collections.abc import Callable, Sequence

from busbw.expect import Estimate
from busbw.logs import PLACEMENT_WORDS, PLACEMENTS, Figure, Placement, Row
from busbw.report.page import ColumnHead, DataTable
from busbw.units import count_text

MAX_ROWS = 2000
"""In one table: browsers become slow beyond."""


def row_table(
    caption: str, rows: Sequence[Row], expected: Callable[[Row], Estimate | None], remark: str = ""
) -> DataTable:
    """One line a row; columns in which no row says anything are left out. `remark`: on what is expected."""
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
        # Two columns each: a spreadsheet takes "5-10" for a date.
        (ColumnHead("healthy busbw GB/s, from"), [_three(one.busbw_gbps.low) if one else "" for one in estimates]),
        (ColumnHead("to"), [_three(one.busbw_gbps.high) if one else "" for one in estimates]),
        (ColumnHead("healthy time us, from"), [_three(one.time_us.low) if one else "" for one in estimates]),
        (ColumnHead("to"), [_three(one.time_us.high) if one else "" for one in estimates]),
    ]
    kept = [(column, cells) for column, cells in columns if any(cells)]
    left = len(rows) - len(shown)
    notes = [f"{count_text(left, 'more row')} not shown here; busbw export csv writes all."] if left else []
    if remark:
        notes.append(f"Healthy: {remark}.")
    return DataTable(
        caption=caption,
        columns=tuple(column for column, _ in kept),
        rows=tuple(zip(*(cells for _, cells in kept), strict=True)),
        note=" ".join(notes),
    )


def _placement(placement: Placement, figures: Sequence[Figure]) -> list[tuple[ColumnHead, list[str]]]:
    words = PLACEMENT_WORDS[placement]

    def column(name: str, cells: list[str]) -> tuple[ColumnHead, list[str]]:
        return ColumnHead(f"{name}, {words}" if words else name), cells

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
    """Not checked, not applicable and zero are three different things."""
    if figure.wrong_elements is not None:
        return str(figure.wrong_elements)
    return {"not_checked": "not checked", "not_applicable": "n/a"}.get(figure.check, "")


def _number_text(value: float | None, *, is_derived: bool = False) -> str:
    """As many digits as a log has; a star where the log does not have it and arithmetic does."""
    if value is None:
        return ""
    return f"{value:.6g}{'*' if is_derived else ''}"


def _integer(value: int | None) -> str:
    return "" if value is None else str(value)


def _three(value: float) -> str:
    """A range of what to expect is not known to more digits."""
    return f"{float(f'{value:.3g}'):.6g}"
