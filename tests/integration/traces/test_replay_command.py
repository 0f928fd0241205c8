"""`busbw replay` and `busbw ab replay` with the real engine on the host backend."""

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_traces import Call, make_trace

from busbw.cli.main import main
from busbw.traces.format import Function
from busbw.traces.read import read_trace
from busbw.traces.replay import make_program
from busbw.traces.write import write_trace

from ..programs import Programs

MS = 1_000_000
CALLS = (
    Call(count=1000, gap_ns=30 * MS),
    Call(function=Function.ALL_GATHER, count=500, gap_ns=20 * MS),
    Call(function=Function.SEND, shift=1, count=lambda _step, rank: 100 + rank, gap_ns=10 * MS),
)


@pytest.fixture
def trace(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace of a job of two ranks with steps of 60 ms."""
    monkeypatch.setenv("BUSBW_PROGRAMS", str(programs.path("busbw-engine").parent))
    monkeypatch.chdir(programs.folder)
    write_trace(make_trace(ranks=2, calls=CALLS, steps=5), programs.folder / "job")
    return Path("job")


def facts(directory: Path) -> list[list[tuple[Any, ...]]]:
    """Returns the operations of a step of a trace, without times and numbers of groups."""
    return [[one[1:6] for one in rank] for rank in make_program(read_trace(directory)).operations]


def shortest_step_us() -> float:
    """Returns the time of the shortest step of all replays in the current directory."""
    records = Path("busbw-records").rglob("records.jsonl")
    lines = [json.loads(line) for path in records for line in path.read_text().splitlines()]
    return min(float(time) for line in lines if line["kind"] == "row" for time in line["samples_us"][0])


def test_a_replay_has_the_same_operations_and_step_time(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(trace), "--record", "again", "-n", "10", "-w", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert facts(Path("again")) == facts(trace)
    assert result["recorded_us"] == pytest.approx(60_150)
    # The gaps of the replay are lower bounds. A busy machine only prolongs steps, so the shortest counts.
    assert result["replayed_us"] >= 60_000
    for _ in range(4):
        if shortest_step_us() <= result["recorded_us"] * 1.03:
            break
        assert main(["replay", str(trace), "-n", "10", "-w", "1"]) == 0
    assert shortest_step_us() == pytest.approx(result["recorded_us"], rel=0.03)
    assert result["wrong_elements"] == 0
    assert {(row["function"], row["recorded_us"]) for row in result["calls"]} == {
        ("all_reduce", 50.0), ("all_gather", 50.0), ("send/recv", 50.0)
    }  # fmt: skip
    assert all(row["replayed_us"] > 0 for row in result["calls"])


def test_the_recorded_replay_can_be_replayed(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(trace), "--record", "again", "-n", "5", "-w", "1"]) == 0
    assert main(["replay", "again", "--records", "second.jsonl", "-n", "5", "-w", "1"]) == 0
    captured = capsys.readouterr()
    assert main(["replay", str(trace), "--record", "again"]) == 2
    assert "--record again exists already; name a new directory" in capsys.readouterr().err
    assert captured.out.count("Step: ") == 2
    assert "Data: correct" in captured.err


def test_wrong_data_is_found(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(trace), "-n", "2", "-w", "0", "--fault", "flip:rank=1,index=3,bit=2"]) == 1
    assert "WRONG DATA" in capsys.readouterr().err


def test_ab_finds_an_injected_delay_and_no_other_difference(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "ab",
        "replay",
        str(trace),
        "--shrink",
        "20",
        "-n",
        "3",
        "-w",
        "0",
        "--max-quadruples",
        "12",
        "--no-noise",
    ]
    assert main([*arguments, "--b", "--fault delay:rank=1,us=30000"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "With B your step is" in text
    assert "% longer (" in text
    assert main([*arguments, "--resolution", "50%"]) == 0
    assert "With B your step is" not in " ".join(capsys.readouterr().out.split())


def test_options_of_a_step_need_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", "all_reduce", "--step", "2"]) == 2
    assert "--step, --all, --scale and --shrink need a trace" in capsys.readouterr().err
    assert main(["replay"]) == 2
    assert "no trace is given; name a trace, or one of llama-70b-tp8" in capsys.readouterr().err
