"""Makes the table of a configuration's rows with the expected ranges."""

from collections.abc import Callable, Sequence

from busbw.expect import Estimate
from busbw.logs.log import PLACEMENT_WORDS, PLACEMENTS, SAMPLE_LABELS, Figure, Placement, Row, comparison_columns
from busbw.report.page import ColumnHead, DataTable
from busbw.units import count_text

MAX_ROWS = 2000
"""Maximum number of rows in one table, because browsers become slow with more."""


def row_table(
    caption: str, rows: Sequence[Row], expected: Callable[[Row], Estimate | None], remark: str = ""
) -> DataTable:
    """Makes a table with one line per row. Empty columns are omitted.

    Args:
        caption: Caption of the table.
        rows: Rows of one configuration.
        expected: Returns the estimate of a row. None if there is no expectation.
        remark: Explanation of the expected ranges, for the note below the table.
    """
    shown_rows = rows[:MAX_ROWS]
    placements = [placement for placement in PLACEMENTS if any(placement in row.figures for row in shown_rows)]
    estimates = [expected(row) for row in shown_rows]
    columns: list[tuple[ColumnHead, list[str]]] = [
        (ColumnHead("line"), [str(row.line) for row in shown_rows]),
        (ColumnHead("variant", is_number=False), [row.variant or "" for row in shown_rows]),
        (ColumnHead("cycle"), [str(row.cycle) for row in shown_rows] if any(row.cycle for row in shown_rows) else []),
        (ColumnHead("size B"), [str(row.size_bytes) for row in shown_rows]),
        (ColumnHead("count"), [_integer_text(row.count) for row in shown_rows]),
        (ColumnHead("type", is_number=False), [row.dtype or "" for row in shown_rows]),
        (ColumnHead("redop", is_number=False), [row.redop or "" for row in shown_rows]),
        (ColumnHead("root"), [_integer_text(row.root) for row in shown_rows]),
    ]
    for placement in placements:
        columns += _placement_columns(placement, [row.figures.get(placement, Figure()) for row in shown_rows])
    columns.append((ColumnHead("claimed speed-up"), [_number_text(row.claimed_speedup) for row in shown_rows]))
    # Two columns for each range, because spreadsheets read "5-10" as a date.
    for heading, field in (("healthy busbw GB/s", "busbw_gbps"), ("healthy time us", "time_us")):
        ranges = [getattr(estimate, field) if estimate else None for estimate in estimates]
        columns += [
            (ColumnHead(f"{heading}, from"), [_range_text(limits.low) if limits else "" for limits in ranges]),
            (ColumnHead("to"), [_range_text(limits.high) if limits else "" for limits in ranges]),
        ]
    columns_with_cells = [(column, cells) for column, cells in columns if any(cells)]
    hidden_count = len(rows) - len(shown_rows)
    notes = []
    if hidden_count:
        notes.append(f"{count_text(hidden_count, 'more row')} not shown here; `busbw export csv` writes all.")
    if remark:
        notes.append(f"Healthy: {remark}.")
    return DataTable(
        caption=caption,
        columns=tuple(column for column, _ in columns_with_cells),
        rows=tuple(zip(*(cells for _, cells in columns_with_cells), strict=True)),
        note=" ".join(notes),
    )


def _placement_columns(placement: Placement, figures: Sequence[Figure]) -> list[tuple[ColumnHead, list[str]]]:
    suffix = PLACEMENT_WORDS[placement]

    def column(name: str, cells: list[str], *, is_number: bool = True) -> tuple[ColumnHead, list[str]]:
        return ColumnHead(f"{name}, {suffix}" if suffix else name, is_number=is_number), cells

    def statistic_columns(name: str, field: str) -> list[tuple[ColumnHead, list[str]]]:
        """Makes one column for each clock of the samples. Samples of different clocks are not comparable."""
        return [
            column(
                f"{label} {name}".lstrip(),
                [
                    _number_text(getattr(figure.stats, field)) if figure.stats and figure.sample_label == label else ""
                    for figure in figures
                ],
            )
            for label in SAMPLE_LABELS
        ]

    return [
        column("time us", [_number_text(figure.time_us, is_derived="time_us" in figure.derived) for figure in figures]),
        column("CPU time us", [_number_text(figure.cpu_time_us) for figure in figures]),
        column("device time us", [_number_text(figure.device_time_us) for figure in figures]),
        column("launch time us", [_number_text(figure.launch_time_us) for figure in figures]),
        column(
            "algbw GB/s",
            [_number_text(figure.algbw_gbps, is_derived="algbw_gbps" in figure.derived) for figure in figures],
        ),
        column(
            "busbw GB/s",
            [_number_text(figure.busbw_gbps, is_derived="busbw_gbps" in figure.derived) for figure in figures],
        ),
        column("wrong", [_check_text(figure) for figure in figures]),
        column("algorithm", [figure.algorithm_text for figure in figures], is_number=False),
        column("channels", [str(figure.channels or "") for figure in figures]),
        *(
            column(heading, [_number_text(value) for value in values])
            for heading, values in comparison_columns(figures)
        ),
        *statistic_columns("median us", "median_us"),
        *statistic_columns("p99 us", "p99_us"),
    ]


def _check_text(figure: Figure) -> str:
    """Text of the check. Not checked, not applicable and zero are different results."""
    if figure.wrong_elements is not None:
        return str(figure.wrong_elements)
    return {"not_checked": "not checked", "not_applicable": "n/a"}.get(figure.check, "")


def _number_text(value: float | None, *, is_derived: bool = False) -> str:
    """Text with six significant digits. An asterisk marks a derived value."""
    if value is None:
        return ""
    return f"{value:.6g}{'*' if is_derived else ''}"


def _integer_text(value: int | None) -> str:
    return "" if value is None else str(value)


def _range_text(value: float) -> str:
    """Text of an end of an expected range, with three significant digits."""
    rounded_value = float(f"{value:.3g}")
    return f"{rounded_value:.6g}"  # .3g would show 1234 as 1.23e+03
