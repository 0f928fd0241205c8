"""The table of rows: every figure as the log has it, and missing is never zero."""

from sample_logs import STATS, WRONG, figure, row

from busbw.expect import Estimate, ExpectedRange
from busbw.report import row_table as row_table_module
from busbw.report.row_table import MAX_ROWS, row_table


def cells(rows: list, expected: Estimate | None = None) -> list[dict[str, str]]:  # type: ignore[type-arg]
    made = row_table("rows", rows, lambda _: expected)
    names = [column.name for column in made.columns]
    return [dict(zip(names, line, strict=True)) for line in made.rows]


def test_figures_and_units() -> None:
    first = cells([row(1 << 20, 7, count=1 << 18)])[0]
    assert first["line"] == "7"
    assert first["size B"] == "1048576"
    assert first["count"] == "262144"
    assert first["time us, out of place"] == "16"
    assert first["busbw GB/s, in place"] == "0.75"
    assert first["wrong, in place"] == "0"


def test_missing_values_are_empty_and_empty_columns_are_omitted() -> None:
    made = cells([row(figures={"out_of_place": figure(None, algbw_gbps=None, busbw_gbps=3.0)}), row(16)])
    assert made[0]["time us, out of place"] == ""
    assert made[0]["busbw GB/s, out of place"] == "3"
    assert "root" not in made[0]
    assert "variant" not in made[0]
    assert "healthy busbw GB/s, from" not in made[0]


def test_not_checked_is_not_zero() -> None:
    states = ("checked", "not_checked", "not_applicable", "unstated")
    rows = [
        row(figures={"unstated": figure(check=state, wrong_elements=0 if state == "checked" else None)})
        for state in states
    ]
    assert [line["wrong"] for line in cells(rows)] == ["0", "not checked", "n/a", ""]
    assert cells([row(figures={"out_of_place": WRONG})])[0]["wrong, out of place"] == "5"


def test_derived_values_are_marked() -> None:
    assert cells([row(figures={"unstated": figure(derived=("time_us",))})])[0]["time us"] == "16*"


def test_expected_ranges_are_in_the_table() -> None:
    expected = Estimate(
        size_bytes=8,
        time_us=ExpectedRange(low=4, typical=9, high=20),
        busbw_gbps=ExpectedRange(low=1.5, typical=2, high=3),
        route="Ring",
        protocol="LL",
        wire="NVLink",
        wire_gbps=2,
    )
    made = row_table("rows", [row()], lambda _: expected)
    assert [column.name for column in made.columns][-4:] == [
        "healthy busbw GB/s, from",
        "to",
        "healthy time us, from",
        "to",
    ]
    assert made.rows[0][-4:] == ("1.5", "3", "4", "20")


def test_very_long_tables_are_truncated_with_a_note(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(row_table_module, "MAX_ROWS", 3)
    made = row_table("rows", [row(8, number) for number in range(5)], lambda _: None)
    assert len(made.rows) == 3
    assert "2 more rows not shown here; `busbw export csv` writes all" in made.note
    assert MAX_ROWS >= 1000


def test_statistics_name_the_clock_of_their_samples() -> None:
    """The time of the row includes launches. Samples by the gated device clock exclude them."""
    device = figure(12.89, stats=STATS, device_time_us=6.98, sample_clock="gated_device_events")
    program = figure(400.0, stats=STATS, device_time_us=399.0, sample_clock="device_events")
    unknown = figure(12.89, stats=STATS, device_time_us=6.98)
    rows = [row(size, figures={"in_place": one}) for size, one in ((8, device), (16, program), (32, unknown))]
    made = row_table("rows", rows, lambda _row: None)
    heads = [column.name for column in made.columns]
    for label, line in (("device ", 0), ("", 1), ("sample ", 2)):
        for name in (f"{label}median us, in place", f"{label}p99 us, in place"):
            cells = [cells[heads.index(name)] for cells in made.rows]
            assert [bool(cell) for cell in cells] == [number == line for number in range(3)]
