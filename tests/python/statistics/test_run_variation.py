"""Tests of the run-to-run variation per launch mode against its measured starts."""

import itertools
import json
from pathlib import Path

import pytest

from busbw.judge import ReferenceSelection, judge
from busbw.logs.log import Figure, Log, Rank, Row, Table
from busbw.statistics.run_variation import VARIATIONS, LaunchMode, launch_mode_of, variation_factor, variation_text

STARTS = Path(__file__).resolve().parents[2] / "golden" / "ten_starts.json"


def table(times_us: dict[int, float], *, ranks: int = 4, settings: dict[str, str] | None = None) -> Log:
    rows = tuple(
        Row(line=1, collective="all_reduce", size_bytes=size, dtype="float", redop="sum", ranks=ranks,
            figures={"out_of_place": Figure(time_us=time)})
        for size, time in sorted(times_us.items())
    )  # fmt: skip
    listed = tuple(Rank(rank=number, host="n0", device=number, device_name="NVIDIA H200") for number in range(ranks))
    one = Table(format="a test", ranks=ranks, rank_list=listed, settings=settings or {}, rows=rows, complete=True)
    return Log(source="a test", tables=(one,))


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ({"nGpus": "4"}, "one thread"),
        ({"gpus_per_thread": "2", "graph_launches": "0"}, "one thread"),
        ({"nGpus": "4", "graph": "20"}, "graph"),
        ({"nGpus": "1"}, "one each"),
        ({}, "one each"),
        ({"backend": "host", "gpus_per_thread": "1"}, "host"),
    ],
)
def test_launch_mode(settings: dict[str, str], way: LaunchMode) -> None:
    assert launch_mode_of(table({8: 1.0}, settings=settings).tables[0]) == way


def test_the_device_list_identifies_ranks_on_processors() -> None:
    assert launch_mode_of(Table(format="a test", rank_list=(Rank(rank=0, bus_id="cpu"),))) == "host"


def test_large_messages_hide_launch_time() -> None:
    assert [variation_factor("one thread", size) for size in (8, 8 << 20, 16 << 20)] == [1.8, 1.8, 1.0]
    assert [variation_factor("one each", size) for size in (8, 1 << 20, 2 << 20)] == [1.8, 1.8, 1.0]
    assert variation_factor("host", 1 << 40) == 2.25
    assert variation_factor("graph", 8) == 1.0
    assert variation_text("graph") is None
    assert "1.8 times apart up to 8 MiB" in str(variation_text("one thread"))
    assert all(one.source for one in VARIATIONS.values())


@pytest.mark.parametrize("machine", ["h200-x4", "h200-x2"])
@pytest.mark.parametrize("program", ["busbw: time", "nccl-tests: time"])
def test_starts_of_one_program_are_not_slow(machine: str, program: str) -> None:
    """Ten starts of a process with several GPUs, one after the other on one machine."""
    kept = json.loads(STARTS.read_text())[machine]
    known = {one["size_bytes"]: one["values_us"] for one in kept["repeatability"] if one["what"] == program}
    settings = {"nGpus": str(kept["gpus"])}
    starts = [
        table({size: values[at] for size, values in known.items()}, ranks=kept["gpus"], settings=settings)
        for at in range(10)
    ]
    found = [
        judge(b, selection=ReferenceSelection(name="a", log=a))[0].grade for a, b in itertools.permutations(starts, 2)
    ]
    assert found == ["GOOD"] * 90


def test_more_than_that_is_slow() -> None:
    times = {size: 30 + size / 200e3 for size in (1024, 4096, 32768, 1 << 20, 64 << 20, 256 << 20, 1 << 30)}
    for settings, factor in (({"nGpus": "4"}, 1.9), ({"nGpus": "1"}, 1.9), ({"nGpus": "4", "graph": "1"}, 1.2)):
        good = ReferenceSelection(name="good", log=table(times, settings=settings))
        slow = table({size: time * factor for size, time in times.items()}, settings=settings)
        (verdict,) = judge(slow, selection=good)
        assert [band.grade for band in verdict.bands] == ["SLOW"] * 3
        assert any("`busbw ab`" in sentence for sentence in verdict.beside) == ("graph" not in settings)
