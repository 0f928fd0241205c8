"""Equal groups of one run are compared with each other."""

import random
from collections.abc import Callable

import msgspec
import pytest

from busbw.expect import Scenario, expect
from busbw.judge import Grade, ReferenceSelection, Verdict, judge, worst
from busbw.logs.log import Figure, Log, Rank, Row, Table
from busbw.system import find

SIZES = tuple(1 << power for power in range(10, 24))
RANKS = 4


def times_us(size: int) -> float:
    return 10 + size / 1e4


def groups(
    factor: Callable[[int], float],
    count: int = 16,
    *,
    device: str = "cpu model",
    noise: float = 0.0,
    time_us_of: Callable[[int], float] = times_us,
    **changes: object,
) -> Log:
    """A run of groups of four ranks on two hosts each, with the factor of each group's time."""
    generator = random.Random(5)
    rank_list = tuple(
        Rank(rank=rank, group=rank // RANKS, host=f"n{rank // 2}", device_name=device) for rank in range(count * RANKS)
    )
    rows = tuple(
        Row(
            line=1,
            size_bytes=size,
            dtype="float",
            redop="sum",
            ranks=RANKS,
            group=group,
            figures={
                placement: Figure(time_us=time_us_of(size) * factor(group) * (1 + noise * generator.uniform(-1, 1)))
                for placement in ("out_of_place", "in_place")
            },
        )
        for size in SIZES
        for group in range(count)
    )
    table = Table(format="a test", collective="all_reduce", ranks=count * RANKS, rank_list=rank_list, rows=rows)
    return Log(source="a test", tables=(msgspec.structs.replace(table, complete=True, **changes),))


def slow(verdicts: tuple[Verdict, ...]) -> list[int]:
    """Returns the slow groups. There is one verdict per group, in their order."""
    return [group for group, verdict in enumerate(verdicts) if verdict.grade == "SLOW"]


def test_one_slow_group_of_sixteen_is_named_with_its_hosts() -> None:
    verdicts = judge(groups(lambda group: 3 if group == 7 else 1))
    assert [verdict.grade for verdict in verdicts] == ["UNSURE"] * 7 + ["SLOW"] + ["UNSURE"] * 8
    assert worst([verdict.grade for verdict in verdicts]) == "SLOW"
    found = verdicts[7]
    assert found.reason_kind == "slow_group"
    assert found.reasons[0].startswith(
        "group 7 on n14, n15 is slower than the median of 16 groups of 4 ranks: its time is up to x3.00 at "
    )
    assert found.reasons[1:] == verdicts[0].reasons  # why the others are UNSURE
    assert found.yardstick == "the median of 16 groups of 4 ranks"
    assert {band.grade for band in found.bands} == {"SLOW"}
    assert "hosts of this group" in found.advice[0]
    assert all(verdict.reason_kind == "no_expectation" for verdict in verdicts if verdict is not found)


def test_titles_name_the_hosts_of_every_group() -> None:
    titles = [verdict.title for verdict in judge(groups(lambda _: 1, 3))]
    assert titles[0] == "all_reduce float sum, 4 ranks, group 0 on n0, n1"
    assert titles[2].endswith("group 2 on n4, n5")


@pytest.mark.parametrize(("count", "expected"), [(2, []), (3, [1]), (4, [1])])
def test_two_groups_cannot_show_which_one_is_slow(count: int, expected: list[int]) -> None:
    assert slow(judge(groups(lambda group: 3 if group == 1 else 1, count))) == expected


def test_a_minority_of_slow_groups_is_found() -> None:
    assert slow(judge(groups(lambda group: 2 if group % 4 == 0 else 1))) == [0, 4, 8, 12]


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3, 0.9])
def test_noise_makes_no_group_slow(noise: float) -> None:
    assert slow(judge(groups(lambda _: 1, noise=noise))) == []


def test_equally_slow_groups_are_not_judged_by_each_other() -> None:
    verdicts = judge(groups(lambda _: 100, device="NVIDIA H200"))
    assert all(verdict.reason_kind != "slow_group" for verdict in verdicts)


def typical_us(size: int) -> float:
    """Typical time of a group on two nodes with H200 in us."""
    scenario = Scenario(collective="all_reduce", ranks=RANKS, ranks_per_node=RANKS // 2)
    estimate = expect(scenario, find("h200-sxm"), SIZES).at(size)
    assert estimate is not None
    return estimate.time_us.typical


@pytest.mark.parametrize(
    ("slow_factor", "states_nics", "own_grade", "yardstick"),
    [
        (1.15, True, "GOOD", "the median of 4 groups of 4 ranks"),
        (2.2, False, "UNSURE", "the median of 4 groups of 4 ranks"),
        (20.0, True, "SLOW", f"2 of 8 GPUs of each healthy node: {find('h200-sxm').title}, over 8 x 400 Gb/s per node"),
    ],
)
def test_the_bands_of_a_slow_group_show_why_it_is_slow(
    slow_factor: float, states_nics: bool, own_grade: Grade, yardstick: str
) -> None:
    """An expectation judges each group too. The group's own bands are shown only if it is SLOW by them."""
    nics = find("h200-sxm").nics if states_nics else None
    alone = groups(lambda _: slow_factor, 1, device="NVIDIA H200", time_us_of=typical_us)
    own = judge(alone, nics=nics)[0]
    assert (own.grade, bool(own.bands)) == (own_grade, True)
    run = groups(lambda group: slow_factor if group == 2 else 1, 4, device="NVIDIA H200", time_us_of=typical_us)
    verdicts = judge(run, nics=nics)
    assert [verdict.grade for verdict in verdicts] == ["GOOD", "GOOD", "SLOW", "GOOD"]
    found = verdicts[2]
    assert (found.reason_kind, found.yardstick) == ("slow_group", yardstick)
    assert "SLOW" in {band.grade for band in found.bands}
    assert (f"{own.grade} against {own.yardstick}" in found.beside) == (own_grade != "SLOW")


def test_groups_of_other_sizes_are_no_equals() -> None:
    run = groups(lambda group: 3 if group == 3 else 1, 4)
    table = run.tables[0]
    rows = tuple(msgspec.structs.replace(row, ranks=8 if row.group == 3 else 4) for row in table.rows)
    extra = tuple(Rank(rank=16 + rank, group=3, host=f"n{6 + rank // 2}") for rank in range(4))
    unequal = msgspec.structs.replace(table, rows=rows, ranks=20, rank_list=(*table.rank_list, *extra))
    assert slow(judge(Log(source="a test", tables=(unequal,)))) == []


def test_a_reference_of_the_user_decides() -> None:
    run = groups(lambda group: 3 if group == 1 else 1, 4)
    assert slow(judge(run, selection=ReferenceSelection(name="itself", log=run))) == []


def test_wrong_data_of_a_slow_group_stay_broken() -> None:
    run = groups(lambda group: 3 if group == 1 else 1, 4)
    table = run.tables[0]
    wrong = [
        msgspec.structs.replace(row, figures={"out_of_place": Figure(time_us=1000.0, wrong_elements=1)})
        if row.group == 1
        else row
        for row in table.rows
    ]
    broken = msgspec.structs.replace(table, rows=tuple(wrong))
    assert judge(Log(source="a test", tables=(broken,)))[1].grade == "BROKEN"
