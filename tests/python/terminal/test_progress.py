"""Which size of how many."""

from pathlib import Path

import msgspec
import pytest

from busbw import records
from busbw.terminal.progress import Progress, duration_text, position_in_sweep, seconds_left

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "records.jsonl"
SETTINGS = records.read(GOLDEN).header.settings


@pytest.mark.parametrize(
    ("changes", "requested_bytes", "place"),
    [
        ({"min_bytes": 8, "max_bytes": 64, "step_factor": 2}, 8, (1, 4)),
        ({"min_bytes": 8, "max_bytes": 64, "step_factor": 2}, 64, (4, 4)),
        ({"min_bytes": 8, "max_bytes": 63, "step_factor": 2}, 32, (3, 3)),
        ({"min_bytes": 8, "max_bytes": 8, "step_factor": 2}, 8, (1, 1)),
        ({"min_bytes": 10, "max_bytes": 25, "step_bytes": 5, "step_factor": None}, 20, (3, 4)),
        ({"sizes_bytes": [7, 3, 9], "step_factor": None}, 3, (2, 3)),
    ],
)
def test_position_in_sweep(changes: dict[str, object], requested_bytes: int, place: tuple[int, int]) -> None:
    assert position_in_sweep(msgspec.structs.replace(SETTINGS, **changes), requested_bytes) == place


def spent(sizes: list[int], fixed_s: float, per_byte_s: float) -> list[tuple[int, float]]:
    return [(size, fixed_s + per_byte_s * size) for size in sizes]


SWEEP = msgspec.structs.replace(SETTINGS, min_bytes=8, max_bytes=8 << 24, step_factor=2, sizes_bytes=None)
SIZES = [8 << step for step in range(25)]


@pytest.mark.parametrize("done", [18, 20, 22, 24])
def test_time_left_if_time_is_proportional_to_size(done: int) -> None:
    costs = spent(SIZES, 0.2, 1e-6)
    truth = sum(took for _, took in costs[done:])
    left = seconds_left(SWEEP, costs[:done])
    assert left is not None
    assert 0.999 * truth <= left <= 1.3 * truth


@pytest.mark.parametrize("done", [0, 1, 2, 3, 10])
def test_no_estimate_before_the_time_per_byte_is_known(done: int) -> None:
    assert seconds_left(SWEEP, spent(SIZES, 0.2, 1e-6)[:done]) is None


def test_nothing_is_left_after_the_last_size() -> None:
    assert seconds_left(SWEEP, spent(SIZES, 0.2, 1e-6)) == 0


def test_millions_of_steps_are_not_written_out() -> None:
    steps = msgspec.structs.replace(SETTINGS, min_bytes=8, max_bytes=1 << 36, step_bytes=8, step_factor=None)
    assert position_in_sweep(steps, 1 << 35) == ((1 << 32), 1 << 33)
    left = seconds_left(steps, [(8, 0.5), (16, 0.5), (24, 0.5)])
    assert left is None


def test_small_steps_need_no_growth() -> None:
    steps = msgspec.structs.replace(SETTINGS, min_bytes=1000, max_bytes=1900, step_bytes=100, step_factor=None)
    assert seconds_left(steps, [(1000, 0.5), (1100, 0.5), (1200, 0.5)]) == pytest.approx(7 * 0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s"), (7.3, "about 7 s"), (38, "about 40 s"), (170, "about 3 min"), (9000, "about 2.5 h")],
)
def test_estimates_are_rounded(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_the_line_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("busbw.terminal.progress.monotonic", lambda: now[0])
    run = records.read(GOLDEN)
    settings = msgspec.structs.replace(SETTINGS, min_bytes=1 << 20, max_bytes=1 << 25, step_factor=2, run_cycles=1)
    path = tmp_path / "records.jsonl"
    progress = Progress(path)
    shown = [progress.text()]
    lines = [msgspec.json.encode(msgspec.structs.replace(run.header, settings=settings))]
    for size in (1 << 20, 1 << 21, 1 << 22, 1 << 23):
        path.write_bytes(b"\n".join([*lines, b""]))
        shown.append(progress.text())
        lines.append(msgspec.json.encode(msgspec.structs.replace(run.rows[0], requested_bytes=size)))
        now[0] += size / (1 << 20)  # a second for each MiB
    path.write_bytes(b"\n".join([*lines, b""]))
    shown.append(progress.text())
    now[0] += 10
    shown.append(progress.text())
    assert shown[0] == "starting, 0 s"
    assert shown[1] == "measuring the first size, 0 s"
    assert shown[2] == "done: 1 MiB float sum out of place, size 1 of 6, 1 s"
    # 16 and 32 MiB are to come: 48 s by the rate of one second for each MiB.
    assert shown[5] == "done: 8 MiB float sum out of place, size 4 of 6, 15 s, about 50 s left of this pass"
    assert shown[6] == "done: 8 MiB float sum out of place, size 4 of 6, 25 s, about 40 s left of this pass"


def test_an_endless_run_has_no_time_left(tmp_path: Path) -> None:
    run = records.read(GOLDEN)
    settings = msgspec.structs.replace(SETTINGS, run_cycles=0)
    path = tmp_path / "records.jsonl"
    header = msgspec.structs.replace(run.header, settings=settings)
    path.write_bytes(b"\n".join([msgspec.json.encode(header), msgspec.json.encode(run.rows[0]), b""]))
    assert Progress(path).text().endswith("runs until interrupted")
