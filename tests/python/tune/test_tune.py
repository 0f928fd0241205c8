"""`busbw tune`: the knobs, the screening, what is adopted, and the files it writes."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence
from hypothesis import given
from hypothesis import strategies as st

from busbw.ab import BlockEndedError, Measurement, SessionRules, SideSpec
from busbw.ab.blocks import Block
from busbw.cli.main import main
from busbw.collectives import COLLECTIVES
from busbw.compare import PointKey
from busbw.errors import INTERRUPT_CODES, ExitCode, UsageError
from busbw.logs.log import Figure
from busbw.support.json_output import SCHEMA_VERSION
from busbw.tune.confirm import confirm
from busbw.tune.knobs import Candidate, default_candidates, load_knobs
from busbw.tune.knobs import parse_knobs as given_knobs
from busbw.tune.outputs import TUNER_FIELDS, Winner, environment_file, tuner_file
from busbw.tune.screen import screen, with_settings

SIZES = [8 << 10, 1 << 20, 64 << 20]
POINTS = [
    PointKey(collective="all_reduce", size_bytes=size, placement=placement)
    for placement in ("out_of_place", "in_place")
    for size in SIZES
]
BASE = SideSpec("")
RULES = SessionRules(resolution=0.05, max_quadruples=24)

# The list of knobs


def test_every_knob_has_a_source_and_settings() -> None:
    assert len(load_knobs()) > 5
    for knob in load_knobs():
        assert knob.source.startswith("https://")
        assert knob.note
        assert knob.settings
        assert set(knob.collectives) <= set(COLLECTIVES)
        assert all(name.startswith("NCCL_") for setting in knob.settings for name in setting)


def test_forcing_an_algorithm_is_for_the_tuner_and_never_for_every_size() -> None:
    for knob in load_knobs():
        forces = any({"NCCL_ALGO", "NCCL_PROTO"} & setting.keys() for setting in knob.settings)
        assert (knob.goes_to == "tuner") == forces


def test_tuner_knobs_can_be_written() -> None:
    for knob in load_knobs():
        if knob.goes_to == "tuner":
            for collective in knob.collectives:
                for setting in knob.settings:
                    winner = Winner(SIZES[1], tuple(setting.items()), 1.1)
                    assert tuner_file(collective, [winner], SIZES, hosts=1, ranks=8)[1] == []


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("hosts", [1, 2])
def test_every_collective_has_candidates_on_gpus(collective: str, hosts: int) -> None:
    texts = [candidate.text for candidate in default_candidates("nccl", collective, hosts)]
    assert texts
    assert len(texts) == len(set(texts))
    assert any("NCCL_IB_" in text for text in texts) == (hosts > 1)


def test_a_backend_without_knobs_gives_a_remedy() -> None:
    with pytest.raises(UsageError, match="name settings with --knob"):
        default_candidates("host", "all_reduce", 1)


def test_given_knobs_are_one_candidate_for_each_value() -> None:
    found = given_knobs(("NCCL_ALGO=Ring,Tree", "X=1"))
    assert [(candidate.text, candidate.goes_to) for candidate in found] == [
        ("NCCL_ALGO=Ring", "tuner"),
        ("NCCL_ALGO=Tree", "tuner"),
        ("X=1", "environment"),
    ]


@pytest.mark.parametrize("text", ["NCCL_ALGO", "NCCL_ALGO=", "=1", "A=1,,2", "A=1,1", "1A=2"])
def test_an_invalid_knob_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        given_knobs((text,))


# The files


def test_the_environment_file_is_lines_of_assignments() -> None:
    text = environment_file((("NCCL_MIN_CTAS", "32"), ("NCCL_NVLS_ENABLE", "0")), ["why"])
    assert text == "# why\nNCCL_MIN_CTAS=32\nNCCL_NVLS_ENABLE=0\n"


def test_the_tuner_file_has_a_line_for_each_winner_up_to_half_way() -> None:
    winners = [
        Winner(SIZES[2], (("NCCL_ALGO", "NVLSTree"), ("NCCL_PROTO", "Simple")), 1.2),
        Winner(SIZES[0], (("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL")), 1.1),
    ]
    text, left_out = tuner_file("all_reduce", winners, SIZES, hosts=2, ranks=16)
    assert left_out == []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    # Half way by ratio: between 8 KiB and 1 MiB at sqrt(2^13 * 2^20) = 92681.9, and to 64 MiB at 2^23.
    assert lines == [
        "allreduce,8192,92681,tree,ll,-1,2,16,-1,-1",
        "allreduce,8388609,67108864,nvls_tree,simple,-1,2,16,-1,-1",
    ]


@given(
    st.lists(st.integers(1, 1 << 40), min_size=1, max_size=8, unique=True),
    st.data(),
)
def test_lines_of_the_tuner_file_never_overlap_and_hold_their_size(sizes: list[int], data: st.DataObject) -> None:
    winning = data.draw(st.lists(st.sampled_from(sizes), unique=True))
    setting = (("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL"))
    text, _ = tuner_file("broadcast", [Winner(size, setting, 1.1) for size in winning], sizes, hosts=1, ranks=4)
    rows = [dict(zip(TUNER_FIELDS, line.split(","), strict=True)) for line in text.splitlines() if line[0] != "#"]
    spans = [(int(row["min_bytes"]), int(row["max_bytes"])) for row in rows]
    for (low, high), size in zip(spans, sorted(winning), strict=True):
        assert low <= size <= high
    for (_, before), (after, _) in pairwise(spans):
        assert before < after


@pytest.mark.parametrize(
    ("collective", "setting"),
    [
        ("all_reduce", (("NCCL_ALGO", "Ring"),)),
        ("all_reduce", (("NCCL_PROTO", "LL"),)),
        ("all_reduce", (("NCCL_ALGO", "Star"), ("NCCL_PROTO", "LL"))),
        ("alltoall", (("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL"))),
        ("all_reduce", (("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL"), ("NCCL_MIN_CTAS", "4"))),
    ],
)
def test_settings_that_the_plugin_cannot_read_are_reported(
    collective: str, setting: tuple[tuple[str, str], ...]
) -> None:
    text, left_out = tuner_file(collective, [Winner(SIZES[0], setting, 1.1)], SIZES, hosts=1, ranks=2)
    assert all(line.startswith("#") for line in text.splitlines())
    assert len(left_out) == 1


# Screening and confirming, with a machine that is made up


@dataclass(frozen=True)
class MadeUp(Measurement):
    """Blocks without an engine: `speed` says how much faster a side's variables make each size."""

    speed: Callable[[dict[str, str]], list[float]]
    noise: random.Random

    def block(self, side: SideSpec, name: str, *extra: str) -> Block:
        speeds = self.speed(dict(side.environment))
        wrong = 3 if dict(side.environment).get("WRONG") else 0
        return {
            point: Figure(
                time_us=100 / speeds[i % 3] * self.noise.uniform(0.995, 1.005), check="checked", wrong_elements=wrong
            )
            for i, point in enumerate(POINTS)
        }


def machine_of(folder: Path, speed: Callable[[dict[str, str]], list[float]]) -> MadeUp:
    return MadeUp(Path("none"), (), folder, speed, random.Random(1))


def candidates(*texts: str, goes_to: str = "environment") -> list[Candidate]:
    pairs = [tuple(tuple(word.split("=")) for word in text.split()) for text in texts]
    return [Candidate(setting, goes_to) for setting in pairs]  # type: ignore[arg-type]


def test_screening_shows_gains_by_size_and_excludes_failures(tmp_path: Path) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        if "FAIL" in environment:
            raise BlockEndedError("no such value", exit_code=ExitCode.USAGE)
        return [1.2, 1.0, 0.8] if "GOOD" in environment else [1.0, 1.0, 1.0]

    found = screen(machine_of(tmp_path, speed), BASE, candidates("GOOD=1", "FAIL=1", "WRONG=1"))
    good, failing, wrong = found
    assert [good.gains[size] for size in SIZES] == pytest.approx([0.2, 0.0, -0.2], abs=0.02)
    assert failing.excluded == "the engine ended with exit code 2"
    assert wrong.excluded.startswith("WRONG DATA")
    assert failing.gains == wrong.gains == {}


@pytest.mark.parametrize("code", sorted(INTERRUPT_CODES))
def test_an_interrupt_ends_the_screening(tmp_path: Path, code: int) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        if environment:
            raise BlockEndedError("stopped", exit_code=code)
        return [1.0, 1.0, 1.0]

    with pytest.raises(BlockEndedError, match="stopped"):
        screen(machine_of(tmp_path, speed), BASE, candidates("A=1"))


@dataclass(frozen=True)
class Failing(MadeUp):
    """Blocks of which those fail that have this variable and a name with this beginning."""

    variable: str
    name: str
    error: BaseException

    def block(self, side: SideSpec, name: str, *extra: str) -> Block:
        if name.startswith(self.name) and self.variable in dict(side.environment):
            raise self.error
        return super().block(side, name, *extra)


def failing_machine(folder: Path, variable: str, name: str, error: BaseException) -> Failing:
    def speed(environment: dict[str, str]) -> list[float]:
        gain = 1.2 ** len(environment)
        return [gain, gain, 1.0]

    return Failing(Path("none"), (), folder, speed, random.Random(1), variable, name, error)


CRASH = BlockEndedError("crashed", exit_code=ExitCode.RANK_LOST)


def test_a_candidate_that_fails_in_a_later_round_is_excluded_alone(tmp_path: Path) -> None:
    good, bad = screen(failing_machine(tmp_path, "BAD", "screen-03", CRASH), BASE, candidates("A=1", "BAD=1"))
    assert (bad.excluded, bad.gains) == ("the engine ended with exit code 4", {})
    assert good.gains.keys() == set(SIZES)


@pytest.mark.parametrize("block", ["proof-B", "block-001", "block-013"])
def test_a_candidate_that_fails_in_its_session_is_rejected_alone(tmp_path: Path, block: str) -> None:
    machine = failing_machine(tmp_path, "BAD", block, CRASH)
    screened = screen(machine, BASE, candidates("BAD=1", "A=1"))
    rules = SessionRules(resolution=1e-4, max_quadruples=24)  # the last size is not decided at the first look
    tuning = confirm(machine, BASE, screened, max_candidates=10, rules=rules)
    decisions = {each.candidate.text: each.decision for each in tuning.confirmed}
    assert decisions["BAD=1"] == "rejected: the engine ended with exit code 4"
    assert decisions["A=1"] == "adopted"
    assert tuning.adopted == (("A", "1"),)
    assert tuning.exit_code == ExitCode.GOOD


@dataclass(frozen=True)
class FailingBase(MadeUp):
    """Blocks of the current setting fail, but not those of a candidate."""

    name: str = ""

    def block(self, side: SideSpec, name: str, *extra: str) -> Block:
        if name.startswith(self.name) and side.environment == BASE.environment:
            raise CRASH
        return super().block(side, name, *extra)


@pytest.mark.parametrize("block", ["proof-A", "noise", "block-001"])
def test_a_failure_of_the_current_setting_rejects_no_candidate(tmp_path: Path, block: str) -> None:
    machine = machine_of(tmp_path, lambda environment: [1.2 ** len(environment)] * 2 + [1.0])
    screened = screen(machine, BASE, candidates("A=1", "B=1"))
    failing = FailingBase(Path("none"), (), tmp_path, machine.speed, random.Random(1), block)
    with pytest.raises(BlockEndedError, match="crashed"):
        confirm(failing, BASE, screened, max_candidates=10, rules=RULES)


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), ExitCode.INTERRUPTED), (BlockEndedError("stopped", exit_code=130), ExitCode.INTERRUPTED)],
)
def test_an_interrupt_keeps_what_was_adopted_before(tmp_path: Path, error: BaseException, code: int) -> None:
    machine = failing_machine(tmp_path, "B", "proof-B", error)
    screened = screen(machine_of(tmp_path, machine.speed), BASE, candidates("A=1", "B=1"))
    screened.sort(key=lambda entry: entry.candidate.text)
    screened[0].gains = dict.fromkeys(SIZES, 0.3)
    tuning = confirm(machine, BASE, screened, max_candidates=10, rules=RULES)
    assert tuning.adopted == (("A", "1"),)
    assert tuning.exit_code == code


def test_settings_that_help_together_are_adopted_together(tmp_path: Path) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        both = 1.3 if environment.get("A") == "2" else 1.15 if environment.get("A") else 1.0
        return [both, both * (1.1 if "B" in environment else 1), both * (0.9 if "C" in environment else 1.0)]

    machine = machine_of(tmp_path, speed)
    screened = screen(machine, BASE, candidates("A=1", "A=2", "B=1", "C=1", "D=1"))
    tuning = confirm(machine, BASE, screened, max_candidates=10, rules=RULES)
    # B helps at one size only, where both placements agree; the second value of A comes too late.
    assert tuning.adopted == (("A", "2"), ("B", "1"))
    assert [each.decision for each in tuning.confirmed] == ["adopted", "adopted"]


def test_a_setting_that_is_slower_at_another_size_is_not_adopted(tmp_path: Path) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        return [1.2, 1.2, 0.8] if environment else [1.0, 1.0, 1.0]

    machine = machine_of(tmp_path, speed)
    screened = screen(machine, BASE, candidates("A=1"))
    tuning = confirm(machine, BASE, screened, max_candidates=10, rules=RULES)
    assert tuning.adopted == ()
    assert tuning.confirmed[0].decision == "rejected: slower at another size"


def test_the_tuner_gets_the_best_setting_of_each_size(tmp_path: Path) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        return {"": [1.0, 1.0, 1.0], "Ring": [0.8, 1.1, 1.3], "Tree": [1.2, 1.2, 0.9]}[environment.get("NCCL_ALGO", "")]

    machine = machine_of(tmp_path, speed)
    tried = candidates("NCCL_ALGO=Ring NCCL_PROTO=LL", "NCCL_ALGO=Tree NCCL_PROTO=LL", goes_to="tuner")
    tuning = confirm(machine, BASE, screen(machine, BASE, tried), max_candidates=10, rules=RULES)
    assert tuning.adopted == ()
    won = {winner.size_bytes: dict(winner.setting)["NCCL_ALGO"] for winner in tuning.winners}
    assert won == dict(zip(SIZES, ["Tree", "Tree", "Ring"], strict=True))


def test_all_settings_of_the_tuner_are_compared_with_the_same_side(tmp_path: Path) -> None:
    def speed(environment: dict[str, str]) -> list[float]:
        # Ring gains 1.5 alone, but only 1.1 together with B. Tree gains 1.3 in both cases.
        algorithm, has_b = environment.get("NCCL_ALGO"), "B" in environment
        return [(1.4 if has_b else 1.0) * {"Ring": 1.1 if has_b else 1.5, "Tree": 1.3, None: 1.0}[algorithm]] * 3

    machine = machine_of(tmp_path, speed)
    tried = [*candidates("NCCL_ALGO=Ring", "NCCL_ALGO=Tree", goes_to="tuner"), *candidates("B=1")]
    tuning = confirm(machine, BASE, screen(machine, BASE, tried), max_candidates=10, rules=RULES)
    assert tuning.adopted == (("B", "1"),)
    assert {dict(winner.setting)["NCCL_ALGO"] for winner in tuning.winners} == {"Tree"}


def test_candidates_without_gain_are_not_confirmed(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, lambda _environment: [1.0, 1.0, 1.0])
    tuning = confirm(machine, BASE, screen(machine, BASE, candidates("A=1")), max_candidates=10, rules=RULES)
    assert tuning.confirmed == []


def test_settings_come_on_top_of_what_all_runs_have() -> None:
    made = with_settings(SideSpec("A=1", (("A", "1"), ("B", "2")), ("-z", "1"), "busbw:1"), (("A", "3"),))
    assert dict(made.environment) == {"A": "3", "B": "2"}
    assert (made.flags, made.image) == (("-z", "1"), "busbw:1")


# The command

ENGINE = """#!/bin/sh
if [ "$1" = --version ]; then echo busbw 9.9.9; exit 0; fi
while [ "$1" != --records ]; do shift; done
cat {folder}/record$SPEED.jsonl > "$2"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine that is twice as fast with SPEED=2; its data are right."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, factor in (("record", 1.0), ("record2", 0.5)):
        lines = []
        for line in GOLDEN_RECORD.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "row":
                record["check"] |= {"wrong_elements": 0, "wrong_ranks": 0, "first_wrong": [], "state": "checked"}
                record |= {"together": None, "skew": None}
                for field in ("time_us", "device_time_us"):
                    record[field] = record[field] and record[field] * factor
                record["samples_us"] = [[time * factor for time in rank] for rank in record["samples_us"]]
            lines.append(json.dumps(record))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    lists_no_devices = '#!/bin/sh\n[ "$1" != --world ] || echo 0 1 none\n'
    for name, text in (("all_reduce_perf", ENGINE.format(folder=folder)), ("busbw-engine", lists_no_devices)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(folder))
    return folder


def test_the_command_finds_confirms_and_writes(busbw: Busbw, here: Path, programs: Path) -> None:
    done = busbw("tune", "all_reduce", "--knob", "SPEED=2,", "--records-folder", "run")
    assert done.returncode == 2, done.stdout  # an empty value is a slip
    done = busbw("tune", "all_reduce", "--knob", "SPEED=2", "--knob", "OTHER=1", "--records-folder", "run")
    assert done.returncode == 0, done.stderr
    assert "SPEED=2: adopted" in done.stdout
    assert (here / "run" / "tuned.env").read_text().splitlines()[-1] == "SPEED=2"
    assert not (here / "run" / "nccl_tuner.conf").exists()


def test_the_command_prints_an_object(busbw: Busbw, here: Path, programs: Path) -> None:
    done = busbw("tune", "all_reduce", "--knob", "SPEED=2", "--records-folder", "run", "--json")
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert next(iter(fields.items())) == ("schema_version", SCHEMA_VERSION)
    assert fields["adopted"] == {"SPEED": "2"}
    assert fields["environment_file"] == "run/tuned.env"
    assert fields["tuner_file"] is None
    (screened,) = fields["screened"]
    assert all(gain["gain"] == pytest.approx(1.0) for gain in screened["gains"])  # twice as fast
    (confirmed,) = fields["confirmed"]
    assert confirmed["setting"] == "SPEED=2"
    assert confirmed["comparison"]["b"]["source"] == "SPEED=2"


def test_the_command_reports_that_nothing_helps(busbw: Busbw, here: Path, programs: Path) -> None:
    done = busbw("tune", "all_reduce", "--knob", "OTHER=1", "--records-folder", "run")
    assert done.returncode == 0
    assert "No setting was confirmed to be faster" in done.stdout
    assert not (here / "run" / "tuned.env").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tune",), "no collective is given"),
        (("tune", "all_reduce", "-b", "8", "--knob", "A=1"), "not a sweep"),
        (("tune", "all_reduce", "--knob", "A"), "is not NAME=VALUE"),
    ],
)
def test_a_doubt_is_one_sentence(
    capsys: pytest.CaptureFixture[str], here: Path, programs: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    assert main(list(arguments)) == 2
    assert sentence in one_sentence(capsys.readouterr().err)
