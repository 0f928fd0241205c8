"""The table of comm_ops in `busbw show`: units, slowest ranks, unknown values."""

from msgspec.structs import replace
from sample_logs import STATS

from busbw.logs.log import Figure, Rank, Row, Table
from busbw.records import StatsRecord
from busbw.terminal import table_lines
from busbw.terminal.comm_ops_view import CommOpsView


def stats(median_us: float, samples: int) -> StatsRecord:
    return replace(STATS, median_us=median_us, samples=samples)


def shown(*rows: Row) -> list[str]:
    ranks = (Rank(rank=0, host="a"), Rank(rank=1, host="b"))
    table = Table(format="records 1.7", collective="comm_ops", rank_list=ranks, rows=rows)
    return [line.plain.rstrip() for line in table_lines(CommOpsView(table).columns(rows), 100)]


def test_each_time_has_its_unit_and_the_slowest_rank_its_host() -> None:
    create = Figure(
        time_us=1_250_000, stats=stats(2_000_000, 2), samples_us=((500_000, 500_000), (1_500_000, 2_500_000))
    )
    reduce = Figure(
        time_us=12_340, stats=stats(987.6, 2), samples_us=((3.0, 1.0), (1.0, 1.0)), check="checked", wrong_elements=3
    )
    assert shown(
        Row(line=2, collective="split/create", size_bytes=0, ranks=2, figures={"out_of_place": create}),
        Row(line=3, collective="split/first_all_reduce", size_bytes=4096, ranks=2, figures={"out_of_place": reduce}),
    ) == [
        "call                    ranks  iters     mean   median  slowest  its median  slowest rank  wrong",
        "split/create                2      2   1.25 s   1.00 s   2.00 s      2.00 s  rank 1 on b",
        "split/first_all_reduce      2      2  12.3 ms  1.00 us  2.00 us     2.00 us  rank 0 on a       3",
    ]


def test_unknown_values_are_empty() -> None:
    row = Row(line=2, collective="init/create", size_bytes=0, figures={"out_of_place": Figure(time_us=5)})
    header, line = shown(row)
    assert line.split() == ["init/create", "5.00", "us"]
    assert "slowest rank" not in header
