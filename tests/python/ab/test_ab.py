"""`busbw ab`: what a side is, the order of blocks, the verdicts, and what is left when it is stopped."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence
from polling import HANG_GUARD_S, wait_until

from busbw.ab import BlockEndedError, Measurement, Session, SessionRules, SideSpec, parse_side, plan
from busbw.ab.blocks import Block, median_us
from busbw.ab.verdicts import Quadruple, judge, log_speedups, noise
from busbw.cli.main import main
from busbw.comparability import SystemFacts
from busbw.compare import ChangeVerdict, Comparison, PointKey
from busbw.errors import INTERRUPT_CODES, ExitCode, UsageError
from busbw.launchers import Command, LaunchPlan, local
from busbw.logs.log import Figure
from busbw.support.json_output import SCHEMA_VERSION

SIZES = [1 << 16, 1 << 18, 1 << 20]
POINTS = [PointKey(collective="all_reduce", size_bytes=size, placement="out_of_place") for size in SIZES]

# Sides


def test_a_side_is_variables_libraries_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    library = tmp_path / "lib x.so"
    library.touch()
    side = parse_side(
        "--a", f"NCCL_ALGO=Ring EMPTY= TWO='a b=c' --preload {shlex.quote(str(library))} -z 1 --library y.so"
    )
    assert side.environment == (("NCCL_ALGO", "Ring"), ("EMPTY", ""), ("TWO", "a b=c"), ("LD_PRELOAD", str(library)))
    assert side.flags == ("-z", "1", "--library", "y.so")


def test_the_value_of_a_flag_may_look_like_anything() -> None:
    assert parse_side("--a", "--fault delay:rank=0,us=5").flags == ("--fault", "delay:rank=0,us=5")


def test_a_preload_precedes_the_existing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.so").touch()
    monkeypatch.setenv("LD_PRELOAD", "/theirs.so")
    assert dict(parse_side("--b", f"--preload={tmp_path}/mine.so").environment)["LD_PRELOAD"] == (
        f"{tmp_path}/mine.so:/theirs.so"
    )


def test_a_bare_library_name_is_searched_next_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path))
    monkeypatch.chdir("/")
    (tmp_path / "libours.so").touch()
    assert dict(parse_side("--b", "--preload libours.so").environment)["LD_PRELOAD"] == str(tmp_path / "libours.so")
    with pytest.raises(UsageError, match=r"there is no library libother.so; .* one installed with busbw"):
        parse_side("--b", "--preload libother.so")
    with pytest.raises(UsageError, match=r"there is no library ./libours.so"):
        parse_side("--b", "--preload ./libours.so")


def test_the_fast_path_precedes_a_library_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine takes the library that BUSBW_NCCL_LIBRARY names, whatever is preloaded: both sides would be alike."""
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setenv("BUSBW_NCCL_LIBRARY", "/opt/libnccl.so.2")
    fast = tmp_path / "libbusbw_nccl.so"
    fast.touch()
    (tmp_path / "other.so").touch()
    preloaded = {"LD_PRELOAD": str(fast), "BUSBW_NCCL_LIBRARY": str(fast)}
    assert dict(parse_side("--b", "--preload libbusbw_nccl.so").environment) == {
        **preloaded,
        "BUSBW_FASTPATH_NCCL": "/opt/libnccl.so.2",
    }
    assert dict(parse_side("--b", "BUSBW_NCCL_LIBRARY=/new.so --preload libbusbw_nccl.so").environment) == {
        **preloaded,
        "BUSBW_FASTPATH_NCCL": "/new.so",
    }
    assert "BUSBW_NCCL_LIBRARY" not in dict(parse_side("--b", "--preload other.so").environment)
    monkeypatch.delenv("BUSBW_NCCL_LIBRARY")
    assert dict(parse_side("--b", "--preload libbusbw_nccl.so").environment) == {"LD_PRELOAD": str(fast)}


def test_an_empty_side_changes_nothing() -> None:
    assert parse_side("--a", " ") == SideSpec("")
    assert SideSpec("").description == "nothing changed"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("--image", "has no value"),
        ("--preload /nowhere.so", "there is no library /nowhere.so"),
        ("NCCL_ALGO", "neither KEY=VALUE nor a flag"),
        ("'open", "No closing quotation"),
        ("--records x", "sets .* for each block"),
        ("-J x", "sets .* for each block"),
    ],
)
def test_an_invalid_side_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_side("--a", text)


# The plan


def test_looks_double_and_end_at_the_maximum() -> None:
    assert plan.looks(96) == [12, 24, 48, 96]
    assert plan.looks(12) == [12]
    assert plan.looks(30) == [12, 24, 30]


@pytest.mark.parametrize("most", [12, 13, 24, 96, 1000])
def test_all_looks_share_the_alpha_of_one_run(most: int) -> None:
    assert plan.alpha_per_look(most) * len(plan.looks(most)) == pytest.approx(plan.RUN_ALPHA)
    assert plan.RUN_ALPHA < 0.01


def test_either_order_cancels_a_drift() -> None:
    for coin in (True, False):
        places = [place for place, side in enumerate(plan.choose_order([coin].pop)) if side == "A"]
        assert sum(places) == 3  # of 0 to 3: the others sum up to the same


# Verdicts from blocks


def block(times_us: list[float]) -> Block:
    return {point: Figure(time_us=time) for point, time in zip(POINTS, times_us, strict=True)}


def quadruples(number: int, b_slower: list[float], seed: int = 1, spread: float = 0.01) -> list[Quadruple]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        order = "ABBA" if random.random() < 0.5 else "BAAB"
        blocks = [
            block([100 * (1 + (s if side == "B" else 0)) * np.exp(spread * random.normal()) for s in b_slower])
            for side in order
        ]
        found.append(Quadruple(order, (blocks[0], blocks[1], blocks[2], blocks[3])))
    return found


def test_speedups_are_independent_of_the_order() -> None:
    matrix = log_speedups(POINTS, quadruples(40, [1.0, 0.0, -0.5], spread=1e-9))
    assert np.allclose(np.exp(matrix), [[0.5, 1.0, 2.0]] * 40)


def test_a_change_needs_an_agreeing_neighbor() -> None:
    judged = judge(POINTS, quadruples(24, [0.05, 0.05, 0.0]), alpha=0.001, resolution=0.03)
    assert [result.verdict for result in judged.results] == [
        ChangeVerdict.SLOWER,
        ChangeVerdict.SLOWER,
        ChangeVerdict.SAME,
    ]
    assert judged.is_decided
    interval = judged.results[0].interval
    assert interval is not None
    assert interval[0] < 1 / 1.05 < interval[1]
    alone = judge(POINTS, quadruples(24, [0.0, 0.05, 0.0]), alpha=0.001, resolution=0.03)
    assert alone.results[1].verdict is ChangeVerdict.UNCLEAR
    assert "no neighbor agrees" in alone.results[1].reason


def test_noise_without_a_difference_is_the_same_or_unclear() -> None:
    quiet = judge(POINTS, quadruples(24, [0.0] * 3), alpha=0.001, resolution=0.05)
    assert {result.verdict for result in quiet.results} == {ChangeVerdict.SAME}
    loud = judge(POINTS, quadruples(24, [0.0] * 3, spread=0.3), alpha=0.001, resolution=0.05)
    assert {result.verdict for result in loud.results} == {ChangeVerdict.UNCLEAR}
    assert not loud.is_decided


def test_points_where_a_differs_from_itself_get_no_verdict() -> None:
    judged = judge(POINTS, quadruples(24, [0.1] * 3), alpha=0.001, resolution=0.05, noisy=frozenset(POINTS[:1]))
    assert [result.verdict.value for result in judged.results] == ["UNCLEAR", "SLOWER", "SLOWER"]
    assert judged.is_decided  # more quadruples would not change that


def test_a_point_without_a_time_in_some_block_is_unclear_and_others_are_not() -> None:
    found = quadruples(24, [0.1] * 3)
    del found[7].blocks[2][POINTS[0]]
    judged = judge(POINTS, found, alpha=0.001, resolution=0.05)
    assert [result.verdict.value for result in judged.results] == ["UNCLEAR", "SLOWER", "SLOWER"]
    assert judged.is_decided


def test_nothing_measured_is_unclear() -> None:
    judged = judge(POINTS, [], alpha=0.001, resolution=0.05)
    assert not judged.is_decided
    assert {result.verdict for result in judged.results} == {ChangeVerdict.UNCLEAR}
    assert noise(POINTS, []) == {}


def test_noise_is_the_difference_of_a_from_itself() -> None:
    found = noise(POINTS, quadruples(200, [0.0] * 3, spread=0.02))
    # The difference of a quadruple has the spread of one block; the median of its size is 0.674 of that.
    assert all(share == pytest.approx(0.674 * 0.02, rel=0.3) for share in found.values())


def test_the_time_of_a_block_is_the_median_of_its_slowest_ranks() -> None:
    assert median_us(Figure(time_us=9.0, samples_us=((1.0, 5.0, 2.0), (3.0, 1.0, 1.0)))) == 3.0
    assert median_us(Figure(time_us=9.0)) == 9.0
    assert np.isnan(median_us(Figure()))


@pytest.mark.parametrize(("lacks_one", "speedup"), [(False, 2.0), (True, 1.25)])
def test_the_devices_time_is_compared_where_every_block_has_it(lacks_one: bool, speedup: float) -> None:
    """A sample of a short operation holds an event, too, which would hide much of a difference."""
    blocks = {
        side: {point: Figure(time_us=20.0, samples_us=((time + 3, time + 3),), device_time_us=time) for point in POINTS}
        for side, time in (("A", 12.0 - 10.0 * (speedup == 2.0)), ("B", 9.0 - 8.0 * (speedup == 2.0)))
    }
    four = [Quadruple("ABBA", (blocks["A"], blocks["B"], blocks["B"], blocks["A"])) for _ in range(12)]
    if lacks_one:
        without = {point: msgspec.structs.replace(figure, device_time_us=None) for point, figure in blocks["A"].items()}
        four[7] = Quadruple("ABBA", (without, blocks["B"], blocks["B"], blocks["A"]))
    judged = judge(POINTS, four, alpha=0.001, resolution=0.05)
    assert {result.compared for result in judged.results} == {"median_us" if lacks_one else "device_time_us"}
    assert [result.speedup for result in judged.results] == pytest.approx([speedup] * 3)
    assert judged.results[0].b.device_time_us == pytest.approx(9.0 if lacks_one else 1.0)


# A whole measurement, with a machine that is made up


class MadeUpMachine(Measurement):
    """Blocks without an engine; what a side changes is in its text."""

    def __init__(self, folder: Path, times: Callable[[str], list[float]]) -> None:
        super().__init__(Path("none"), (), folder)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "names", [])

    def block(self, side: SideSpec, name: str, *extra: str) -> Block:
        self.names.append(name)  # type: ignore[attr-defined]
        return block(self.times(side.text))  # type: ignore[attr-defined]


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which budgets are kept."""
    clock = Clock()
    monkeypatch.setattr("busbw.ab.session.monotonic", clock)
    return clock


def measured(
    times: Callable[[str], list[float]], most: int = 96, max_time_s: float | None = None
) -> tuple[Comparison, Session, list[str]]:
    machine = MadeUpMachine(Path("unused"), times)
    rules = SessionRules(resolution=0.05, max_quadruples=most, max_time_s=max_time_s)
    session = Session(machine, (SideSpec("a"), SideSpec("b")), rules, seed=3)
    return session.run(), session, machine.names  # type: ignore[attr-defined]


def test_a_difference_is_found_at_the_first_look() -> None:
    random = np.random.default_rng(1)
    comparison, session, names = measured(
        lambda side: list(100 * (1.05 if side == "b" else 1) * np.exp(0.005 * random.normal(size=3)))
    )
    assert {result.verdict for result in comparison.results} == {ChangeVerdict.SLOWER}
    assert len(session.state.quadruples) == plan.FIRST_LOOK
    assert names[:2] == ["proof-A", "proof-B"]
    assert sum(name.startswith("noise-") for name in names) == 4 * plan.FIRST_LOOK
    assert "every size was decided" in comparison.warnings[-1]
    assert {len({name[-1] for name in names if name.startswith(f"block-{i:03}")}) for i in range(1, 13)} == {2}


def test_without_noise_half_the_blocks_are_enough_and_it_is_said() -> None:
    machine = MadeUpMachine(Path("unused"), lambda side: [50.0 if side == "b" else 100.0] * 3)
    rules = SessionRules(resolution=0.05, measures_noise=False)
    comparison = Session(machine, (SideSpec("a"), SideSpec("b")), rules, seed=3).run()
    assert {result.verdict for result in comparison.results} == {ChangeVerdict.FASTER}
    assert len(machine.names) == 2 + 4 * plan.FIRST_LOOK  # type: ignore[attr-defined]
    assert any("--no-noise" in sentence for sentence in comparison.method)
    with pytest.raises(UsageError, match=r"too little: a verdict needs at least 48 blocks"):
        Session(
            machine, (SideSpec("a"), SideSpec("b")), SessionRules(0.05, max_time_s=1e-9, measures_noise=False)
        ).run()


def test_noise_is_measured_up_to_the_maximum_of_quadruples() -> None:
    random = np.random.default_rng(1)
    comparison, session, _ = measured(lambda _side: list(100 * np.exp(random.normal(size=3))), most=30)
    assert {result.verdict for result in comparison.results} == {ChangeVerdict.UNCLEAR}
    assert len(session.state.quadruples) == 30


def test_a_budget_too_small_for_a_verdict_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--budget 1e-09 is too little: a verdict needs at least 96 blocks.* or more"):
        measured(lambda _side: [1.0, 1.0, 1.0], max_time_s=1e-9)


def test_a_budget_ends_it(clock: Clock) -> None:
    blocks = 0

    def times(_side: str) -> list[float]:
        nonlocal blocks
        blocks += 1
        clock.now_s += 0.4 if blocks > 2 + 4 * plan.FIRST_LOOK else 0.001  # slower than the first two
        return [1.0, 1.0, 1.0]

    comparison, session, _ = measured(times, max_time_s=1.0)
    assert len(session.state.quadruples) == 1
    assert "the time budget of 1 s" in comparison.warnings[-1]


def test_a_budget_also_ends_the_noise_measurement(clock: Clock) -> None:
    blocks = 0

    def times(_side: str) -> list[float]:
        nonlocal blocks
        blocks += 1
        clock.now_s += 0.3 if blocks > 2 else 0.001
        return [1.0, 1.0, 1.0]

    comparison, session, _ = measured(times, max_time_s=0.7)
    assert len(session.state.noise_quadruples) == 1
    assert session.state.quadruples == []
    assert "the time budget" in comparison.warnings[-1]


@pytest.mark.parametrize("code", sorted(INTERRUPT_CODES))
def test_an_interrupt_keeps_the_finished_quadruples(code: int) -> None:
    random = np.random.default_rng(4)
    count = 0

    def times(_side: str) -> list[float]:
        nonlocal count
        count += 1
        if count > 2 + 4 * (plan.FIRST_LOOK + 20) + 3:
            raise BlockEndedError("stopped", exit_code=code)
        return list(100 * np.exp(0.3 * random.normal(size=3)))

    comparison, session, _ = measured(times)
    assert session.state.exit_code == code
    assert len(session.state.quadruples) == 20  # the one that was cut off does not count
    assert all(result.interval is not None for result in comparison.results)
    assert any("Interrupted while measuring A against B" in sentence for sentence in comparison.warnings)


def test_a_lost_rank_ends_it_with_its_exit_code() -> None:
    count = 0

    def times(_side: str) -> list[float]:
        nonlocal count
        count += 1
        if count > 30:
            raise BlockEndedError("rank lost", exit_code=ExitCode.RANK_LOST)
        return [100.0] * 3

    comparison, session, _ = measured(times)
    assert session.state.exit_code == ExitCode.RANK_LOST
    assert {result.verdict for result in comparison.results} == {ChangeVerdict.UNCLEAR}
    assert any("rank lost" in sentence for sentence in comparison.warnings)


def test_wrong_data_in_a_later_block_are_reported() -> None:
    class Flaky(MadeUpMachine):
        def block(self, side: SideSpec, name: str, *extra: str) -> Block:
            made = super().block(side, name, *extra)
            if name.startswith("block-005") and side.text == "b":
                made[POINTS[1]] = Figure(time_us=100.0, check="checked", wrong_elements=9)
            return made

    machine = Flaky(Path("unused"), lambda _side: [100.0] * 3)
    comparison = Session(machine, (SideSpec("a"), SideSpec("b")), SessionRules(resolution=0.05)).run()
    assert comparison.wrong_data == ("B has wrong data in 1 of 3 measurements, in some blocks.",)


def test_sides_on_unlike_systems_are_refused() -> None:
    class Mixed(MadeUpMachine):
        def system_facts(self, name: str) -> SystemFacts:
            return SystemFacts(gpu="NVIDIA H100 SXM5" if name == "proof-A" else "NVIDIA H200 SXM5", hosts=1)

    machine = Mixed(Path("unused"), lambda _side: [100.0] * 3)
    with pytest.raises(UsageError, match="unlike systems: GPU NVIDIA H100 SXM5 against NVIDIA H200 SXM5"):
        Session(machine, (SideSpec("a"), SideSpec("b")), SessionRules(resolution=0.05)).run()
    assert machine.names == ["proof-A", "proof-B"]  # type: ignore[attr-defined]


# The command, with an engine that writes a record of given times

ENGINE = """#!/bin/sh
if [ "$1" = --version ]; then echo busbw 9.9.9; exit 0; fi
echo "$*" "SLOW=$SLOW" >> {log}
if [ -n "$FAIL" ]; then echo "no such thing" >&2; exit $FAIL; fi
if [ -n "$KILL" ]; then kill -KILL $$; fi
if [ -n "$UCX_TOKEN" ]; then echo "$UCX_TOKEN $P" >> {log}.secrets; fi
if [ -n "$DEAF" ]; then trap "" INT TERM HUP; fi
if [ -n "$WAIT" ]; then
  sleep 0.05
  case "$*" in *noise-00[4-9]*) sleep 2;; esac  # who signals in the third quadruple may get no turn for seconds
fi
while [ "$1" != --records ]; do shift; done
if [ -n "$SLOW" ]; then cat {slow} > "$2"; else cat {fast} > "$2"; fi
exit ${{CODE:-0}}
"""


WORLD = """#!/bin/sh
[ "$1" != --world ] || echo "${RANK:-0} ${WORLD_SIZE:-1} torchrun"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such an engine; SLOW=1 doubles its times."""
    folder = tmp_path / "programs"
    folder.mkdir()
    slow = []
    for line in GOLDEN_RECORD.read_text().splitlines():
        record = json.loads(line)
        for name in ("time_us", "device_time_us"):
            if record.get(name):
                record[name] *= 2
        if record.get("samples_us"):
            record["samples_us"] = [[2 * time for time in rank] for rank in record["samples_us"]]
        slow.append(json.dumps(record))
    (folder / "slow.jsonl").write_text("\n".join(slow) + "\n")
    measuring = ENGINE.format(log=folder / "log", slow=folder / "slow.jsonl", fast=GOLDEN_RECORD)
    for name, text in (("all_reduce_perf", measuring), ("busbw-engine", WORLD)):  # lists no devices
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(folder))
    return folder


def test_the_command_measures_both_sides_and_keeps_every_block(busbw: Busbw, here: Path, programs: Path) -> None:
    done = busbw("ab", "all_reduce", "-t", "2", "--sizes", "1K", "--b", "SLOW=1", "--records-folder", "run")
    assert "SLOWER" in done.stdout, done.stderr
    assert done.returncode in (0, 1)  # the golden record holds wrong data, which is said first
    calls = (programs / "log").read_text().splitlines()
    assert len(calls) == 2 + 4 * 24
    assert sum(call.endswith("SLOW=1") for call in calls) == 1 + 2 * 12
    assert all("-t 2 --sizes 1K" in call for call in calls)
    assert sum("-c 0" in call for call in calls) == 4 * 24
    kept = sorted(path.name for path in (here / "run").iterdir())
    assert len(kept) == len(calls) + 1
    assert json.loads((here / "run" / "comparison.json").read_text())["b"]["source"] == "SLOW=1"


def test_the_command_prints_an_object(busbw: Busbw, here: Path, programs: Path) -> None:
    words = ("-t", "2", "--sizes", "1K", "--b", "SLOW=1", "--max-quadruples", "12", "--records-folder", "run", "--json")
    fields = json.loads(busbw("ab", "all_reduce", *words).stdout)
    assert next(iter(fields.items())) == ("schema_version", SCHEMA_VERSION)
    assert fields == json.loads((here / "run" / "comparison.json").read_text())


def test_slower_is_an_exit_code_where_it_is_asked_for(busbw: Busbw, programs: Path) -> None:
    text = GOLDEN_RECORD.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    if any(line.get("check", {}).get("wrong_elements") for line in lines):
        assert busbw("ab", "all_reduce", "--b", "SLOW=1", "--not-slower").returncode == ExitCode.WRONG_DATA
    else:
        assert busbw("ab", "all_reduce", "--b", "SLOW=1", "--not-slower").returncode == ExitCode.SLOWER_THAN_DEMANDED


@pytest.mark.parametrize(
    ("given", "filled_in"),
    [
        ((), "-b 1K -e 16M -f 4 "),
        (("-b", "1K", "-e", "1G"), "-f 2 -b 1K -e 1G "),
        (("-b", "1K", "-i", "1K"), "-b 1K -i 1K "),
        (("--sizes", "1K"), "--sizes 1K "),
    ],
)
def test_missing_sweep_flags_get_defaults(busbw: Busbw, programs: Path, given: tuple[str, ...], filled_in: str) -> None:
    busbw("ab", "all_reduce", "--b", "FAIL=3", *given)  # the first block of the second side is the last
    ranks = min(max(len(os.sched_getaffinity(0)), 2), 4)
    assert (programs / "log").read_text().startswith(f"-t {ranks} {filled_in}")


def test_the_users_check_applies_to_every_block(busbw: Busbw, programs: Path) -> None:
    busbw("ab", "all_reduce", "-c", "5", "--max-quadruples", "12")
    calls = (programs / "log").read_text().splitlines()
    assert not any("-c 0" in call for call in calls)


def test_the_engines_refusal_keeps_its_message_and_exit_code(busbw: Busbw, here: Path, programs: Path) -> None:
    done = busbw("ab", "all_reduce", "--b", "FAIL=2")
    assert done.returncode == 2
    assert "no such thing" in done.stderr
    assert "exit code 2 in the block proof-B (FAIL=2)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((here / "busbw-records").iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ab",), "no collective is given"),
        (("ab", "-t", "2"), "is in the place of the collective"),
        (("ab", "all_reduse"), 'no collective "all_reduse"'),
        (("ab", "all_reduce", "--max-quadruples", "3"), "quadruples"),
        (("ab", "all_reduce", "--records-folder", "."), "exists already"),
    ],
)
def test_a_doubt_is_one_sentence(
    capsys: pytest.CaptureFixture[str], here: Path, programs: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(list(arguments)) == 2
    assert sentence in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("command", ["ab", "tune"])
def test_one_of_several_launched_processes_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([command, "all_reduce"]) == 2
    remedy = {
        "ab": "measure each side with busbw launch, then use busbw compare",
        "tune": "start it once, on one node (srun -n 1)",
    }
    assert one_sentence(capsys.readouterr().err) == (
        f"busbw: busbw {command} starts its ranks itself, but torchrun started it as process 1 of 2; {remedy[command]}"
    )
    assert list(here.iterdir()) == []
    assert not (programs / "log").exists()


@pytest.mark.parametrize(
    ("command", "options", "block"),
    [("ab", ["--b", "KILL=1"], "proof-B"), ("tune", ["--common", "KILL=1"], "proof-000")],
)
def test_a_killed_engine_is_a_lost_process(
    capsys: pytest.CaptureFixture[str], here: Path, programs: Path, command: str, options: list[str], block: str
) -> None:
    assert main([command, "all_reduce", *options]) == ExitCode.RANK_LOST
    assert (
        f"the engine of the block {block} (KILL=1) was killed or crashed (SIGKILL); after SIGKILL check dmesg"
        in capsys.readouterr().err
    )


def test_no_value_of_a_secret_is_shown(busbw: Busbw, here: Path, programs: Path) -> None:
    words = ("--max-quadruples", "12", "--no-noise", "--records-folder", "run", "--sizes", "1K")
    done = busbw("ab", "all_reduce", *words, "--b", "UCX_TOKEN='hu sh' P=http://me:hush@h -z 1")
    assert "UCX_TOKEN=(redacted) P=(redacted) -z 1" in done.stdout
    assert "hush" not in done.stdout + done.stderr
    assert "hu sh" not in done.stdout + done.stderr
    comparison = (here / "run" / "comparison.json").read_text()
    assert json.loads(comparison)["b"]["source"] == "UCX_TOKEN=(redacted) P=(redacted) -z 1"
    assert "hush" not in comparison
    variables = (programs / "log.secrets").read_text().splitlines()
    assert variables == ["hu sh http://me:hush@h"] * (1 + 2 * 12)


def test_no_command_line_has_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user of the machine can read the command lines of all processes."""
    commands: list[Command] = []

    def submit(plan: LaunchPlan, _callbacks: object) -> int:
        commands.extend(plan.commands)
        return ExitCode.USAGE

    monkeypatch.setattr(local, "submit", submit)
    side = parse_side("--b", "UCX_TOKEN=hush NCCL_ALGO=Ring")
    measurement = Measurement(Path("/x/all_reduce_perf"), (), tmp_path)
    with pytest.raises(BlockEndedError):
        measurement.block(side, "one")
    assert [command.words[0] for command in commands] == ["/x/all_reduce_perf"]
    assert commands[0].environment == (("UCX_TOKEN", "hush"), ("NCCL_ALGO", "Ring"))


STARTED = [sys.executable, "-c", "import sys; from busbw.cli.entry_point import main; sys.exit(main())"]
"""As the installed command is."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("engine", ["WAIT=1", "WAIT=1 DEAF=1"], ids=["a block ends", "a block comes to its end"])
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_signal_prints_the_result_so_far(
    here: Path, programs: Path, repeats: int, engine: str, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*STARTED, "ab", "all_reduce", "--a", engine, "--b", engine, "--records-folder", "run"],
        cwd=here,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: list((here / "run").glob("noise-003-*")), "the third quadruple")
    for _ in range(repeats):
        process.send_signal(number)
        time.sleep(0.01)
    stdout, stderr = process.communicate(timeout=HANG_GUARD_S)
    # The engine's code, where it is one that a signal ends; and the last repeat may come when all is said.
    by_itself = 128 + number
    assert process.returncode in (by_itself, -number, 130 if number == signal.SIGINT else 143), stderr
    assert "Interrupted while measuring the noise" in " ".join(stdout.split())
    assert "Traceback" not in stderr
    assert (here / "run" / "comparison.json").exists()
