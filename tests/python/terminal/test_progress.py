"""Which row of how many, and the remaining time."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console, Group

from busbw import records
from busbw.terminal.progress import Progress, duration_text, progress_line, seconds_left

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "records.jsonl"


def spent(sizes: list[int], fixed_s: float, per_byte_s: float) -> list[tuple[int, float]]:
    return [(size, fixed_s + per_byte_s * size) for size in sizes]


SIZES = [8 << step for step in range(25)]


def left_after(costs: list[tuple[int, float]], sizes: list[int] = SIZES) -> float | None:
    remaining = sizes[len(costs) :]
    return seconds_left(len(remaining), sum(remaining), costs)


@pytest.mark.parametrize("done", [18, 20, 22, 24])
def test_time_left_if_time_is_proportional_to_size(done: int) -> None:
    costs = spent(SIZES, 0.2, 1e-6)
    truth = sum(took for _, took in costs[done:])
    left = left_after(costs[:done])
    assert left is not None
    assert 0.999 * truth <= left <= 1.3 * truth


@pytest.mark.parametrize("done", [0, 1, 2, 3, 10])
def test_no_estimate_before_the_time_per_byte_is_known(done: int) -> None:
    assert left_after(spent(SIZES, 0.2, 1e-6)[:done]) is None


def test_nothing_is_left_after_the_last_size() -> None:
    assert left_after(spent(SIZES, 0.2, 1e-6)) == 0


def test_a_second_pass_keeps_the_time_per_byte_of_the_first() -> None:
    costs = spent(SIZES, 0.2, 1e-6)
    left = left_after([*costs, *costs[:4]], SIZES * 2)
    assert left == pytest.approx(sum(took for _, took in costs[4:]))


def test_small_steps_need_no_growth() -> None:
    assert left_after([(1000, 0.5), (1100, 0.5), (1200, 0.5)], [*range(1000, 2000, 100)]) == pytest.approx(7 * 0.5)


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
    header = msgspec.structs.replace(run.header, rows_planned=6, bytes_planned=(1 << 26) - (1 << 20))
    path = tmp_path / "records.jsonl"
    progress = Progress(path)
    shown = [progress.text()]
    lines = [msgspec.json.encode(header)]
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
    assert shown[1] == "measuring the first row, 0 s"
    assert shown[2] == "done: 1 MiB float sum out of place, row 1 of 6, 1 s"
    # 16 and 32 MiB are to come: 48 s by the rate of one second for each MiB.
    assert shown[5] == "done: 8 MiB float sum out of place, row 4 of 6, 15 s, about 50 s left"
    assert shown[6] == "done: 8 MiB float sum out of place, row 4 of 6, 25 s, about 40 s left"


def test_a_reason_is_shown_whole_and_other_texts_in_one_line() -> None:
    reason = "waiting: 2 of 2 pods pending (0/6 nodes are available: 6 Insufficient nvidia.com/gpu, " + "x" * 100 + ")"
    for is_reason in (True, False):
        console = Console(width=80, file=io.StringIO())
        with console.capture() as capture:
            console.print(Group(progress_line(reason, is_reason=is_reason)))  # a bare Text loses its overflow
        shown = capture.get().splitlines()
        assert max(map(len, shown)) <= 80
        assert ("".join("".join(shown).split()) == "".join(reason.split())) == is_reason
        assert (len(shown) == 1) != is_reason


def test_an_endless_run_has_no_time_left(tmp_path: Path) -> None:
    run = records.read(GOLDEN)
    path = tmp_path / "records.jsonl"
    settings = msgspec.structs.replace(run.header.settings, run_cycles=0)
    header = msgspec.structs.replace(run.header, settings=settings, rows_planned=None, bytes_planned=None)
    path.write_bytes(b"\n".join([msgspec.json.encode(header), msgspec.json.encode(run.rows[0]), b""]))
    assert Progress(path).text().endswith("runs until interrupted")
