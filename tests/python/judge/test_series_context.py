"""Contexts of series: equal tables share one, and no verdict depends on the other tables of its log."""

from collections.abc import Callable
from itertools import product

import pytest
from msgspec.structs import replace

from busbw.expect import Expectation
from busbw.judge import ReferenceSelection, Verdict, judge, judge_configurations, series_context
from busbw.judge.nearest import NearestReference, select_nearest
from busbw.judge.reference_selection import read_reference_series
from busbw.judge.series import Series
from busbw.judge.yardstick import Yardstick, yardstick_from_expectation
from busbw.logs.log import Figure, Log, Rank, Row, Table
from busbw.records import StatsRecord
from busbw.reference import find as find_reference
from busbw.system import find as find_system

SIZES = tuple(8 << (3 * step) for step in range(10))


def make_table(first_line: int = 1, **changes: object) -> Table:
    """A run of all_reduce on 8 H100 of two nodes, with any fields replaced."""
    ranks = tuple(
        Rank(rank=number, pid=first_line + number, host=f"n{number // 4}", device_name="NVIDIA H100 80GB HBM3")
        for number in range(8)
    )
    rows = tuple(
        Row(
            line=line,
            size_bytes=size,
            dtype="float",
            redop="sum",
            figures={"out_of_place": Figure(time_us=20 + size / 1e5)},
        )
        for line, size in enumerate(SIZES, start=first_line)
    )
    table = Table(format="a test", collective="all_reduce", ranks=8, rank_list=ranks, first_line=first_line, rows=rows)
    return replace(table, **changes)


def make_run(number: int) -> Table:
    """One of several runs of `make_table`, with what identifies a run in a record."""
    return make_table(100 * number, settings={"run_id": f"r{number}"}, environment={"SLURM_JOB_ID": str(number)})


def with_device(table: Table, device: str) -> Table:
    return replace(table, rank_list=tuple(replace(rank, device_name=device) for rank in table.rank_list))


VARIANTS: list[Callable[[Table], Table]] = [
    lambda table: table,
    lambda table: with_device(table, "NVIDIA H200"),
    lambda table: with_device(table, "NVIDIA Z9"),
    lambda table: replace(table, rank_list=tuple(replace(rank, host="n0") for rank in table.rank_list)),
    lambda table: replace(table, rank_list=tuple(replace(rank, bus_id="cpu") for rank in table.rank_list)),
    lambda table: replace(table, collective="all_gather"),
    lambda table: replace(table, ranks=4, rank_list=table.rank_list[:4]),
    lambda table: replace(table, environment={"NCCL_ALGO": "Tree"}),
    lambda table: replace(table, settings={"graph": "10"}),
    lambda table: replace(table, settings={"nGpus": "8"}),
    lambda table: replace(table, title="H100 SXM, 4x400 Gb/s"),
    lambda table: replace(table, library="NCCL 2.18.1"),
    lambda table: replace(table, complete=False),
    lambda table: replace(table, rank_zero_processes=2),
    lambda table: replace(table, claimed_out_of_bounds=3),
    lambda table: replace(table, rows=table.rows[4:]),
    lambda table: replace(table, rows=tuple(replace(row, dtype="half") for row in table.rows)),
    lambda table: replace(table, rows=tuple(replace(row, ranks=2) for row in table.rows)),
    lambda table: replace(
        table, rows=tuple(replace(row, figures={"in_place": row.figures["out_of_place"]}) for row in table.rows)
    ),
    lambda table: replace(
        table,
        rows=tuple(
            replace(row, figures={"out_of_place": Figure(time_us=2 * (20 + row.size_bytes / 1e5))})
            for row in table.rows
        ),
    ),
]


@pytest.mark.parametrize(
    "selection",
    [
        None,
        ReferenceSelection(name="auto", nearest=True),
        ReferenceSelection(name="h100-x8-floor", reference=find_reference("h100-x8-floor")),
        ReferenceSelection(
            name="good", log=Log(source="good", tables=(with_device(make_table(), "NVIDIA H200"), make_table(100)))
        ),
    ],
    ids=["expectation", "nearest", "published", "log"],
)
@pytest.mark.parametrize("system", [None, "h200-sxm"])
def test_a_verdict_does_not_depend_on_the_other_tables_of_its_log(
    selection: ReferenceSelection | None, system: str | None
) -> None:
    run_system = find_system(system) if system else None
    tables = [variant(make_table(100 * number)) for number, variant in enumerate(VARIANTS, start=1)]
    alone = [
        configuration
        for table in tables
        for configuration in judge_configurations(
            Log(source="x", tables=(table,)), system=run_system, selection=selection
        )
    ]
    together = tuple(
        judge_configurations(Log(source="x", tables=tuple(tables)), system=run_system, selection=selection)
    )
    assert [replace(configuration, table=1) for configuration in together] == alone
    assert len({str(configuration.verdict) for configuration in alone}) > 5  # the variants differ


def test_equal_tables_share_one_search_for_published_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []

    def select_and_count(series: Series, selection: ReferenceSelection) -> NearestReference | None:
        searches.append(series.title)
        return select_nearest(series, selection)

    monkeypatch.setattr("busbw.judge.series_context.select_nearest", select_and_count)
    verdicts = judge(Log(source="x", tables=tuple(make_run(number) for number in range(1, 31))))
    assert len(verdicts) == 30
    assert len(searches) == 1


def test_equal_tables_share_one_yardstick(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Yardstick] = []

    def make_and_count(expectation: Expectation, *, assumes_nics: bool) -> Yardstick:
        made.append(yardstick_from_expectation(expectation, assumes_nics=assumes_nics))
        return made[-1]

    monkeypatch.setattr(series_context, "yardstick_from_expectation", make_and_count)
    judge(Log(source="x", tables=tuple(make_run(number) for number in range(1, 31))))
    assert len(made) == 1


def test_curves_are_analyzed_only_if_they_are_needed() -> None:
    log = Log(source="x", tables=tuple(make_run(number) for number in range(1, 4)))
    asked: list[Verdict] = []

    def is_second(verdict: Verdict) -> bool:
        asked.append(verdict)
        return len(asked) == 2

    verdicts = [configuration.verdict for configuration in judge_configurations(log, needs_curve=is_second)]
    complete = judge(log)
    assert all(verdict.fit for verdict in complete)
    assert verdicts[1] == complete[1]
    assert asked == [replace(verdict, fit=None, half_bytes=None, features=()) for verdict in complete]
    assert verdicts[::2] == asked[::2]


def test_different_tables_beyond_the_limit_keep_their_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_context, "_MAX_CONTEXTS", 2)
    tables = tuple(variant(make_table(100)) for variant, _ in product(VARIANTS[:5], range(2)))
    assert judge(Log(source="x", tables=tables)) == tuple(
        verdict for table in tables for verdict in judge(Log(source="x", tables=(table,)))
    )


def test_a_reference_log_of_equal_tables_keeps_one_series() -> None:
    log = Log(source="good", tables=tuple(make_run(number) for number in range(1, 31)))
    (series,) = read_reference_series(log).by_mean
    assert series.row.line == 100


def test_a_reference_without_medians_in_one_table_is_used_by_means() -> None:
    stats = StatsRecord(
        samples=9,
        mean_us=30,
        median_us=20,
        p95_us=40,
        p99_us=40,
        min_us=10,
        max_us=40,
        stdev_us=1,
        cv_percent=5,
        median_ci95_us=None,
    )
    rows = tuple(
        replace(row, figures={"out_of_place": replace(row.figures["out_of_place"], stats=stats)})
        for row in make_table().rows
    )
    with_medians = make_table(rows=rows)
    both = read_reference_series(Log(source="good", tables=(with_medians, make_table(100))))
    assert both.by_median is None
    only = read_reference_series(Log(source="good", tables=(with_medians,)))
    assert only.by_median is not None
    assert {point.time_us for point in only.by_median[0].points} == {20}
