"""The sentence about speed at the end of `busbw run` and `busbw launch`, next to that about correct data."""

import json
import re
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, ROOT, FakeEngine
from msgspec.structs import replace

from busbw.cli.main import main
from busbw.cli.outcome.speed import speed_sentence
from busbw.judge import judge
from busbw.readers import read

GOLDEN = ROOT / "tests" / "golden"
H200 = "4 of 8 GPUs of a healthy node: NVIDIA H200 SXM5, 8 per node"
SIZES = [1 << power for power in range(28, 33)]


def sentence(name: str) -> str:
    return speed_sentence(judge(read(GOLDEN / name)))


def test_the_sentence_has_the_grade_and_its_figure() -> None:
    # 353.17 GB/s is the figure of the log that is nearest to the low end of its range.
    text = sentence("logs/h200_x4_nccl_single_process.txt")
    assert text.startswith("Speed: GOOD: 353.2 GB/s at 1 GiB, expected ")
    assert text.endswith(f" GB/s ({H200}).")


def test_the_worst_of_several_configurations_is_named() -> None:
    text = sentence("seeds/000_4bd6902a841c76ab.txt")
    assert text.startswith(
        "Speed: SLOW in 3 of 6 configurations, such as all_reduce float sum, 16 ranks: 161.8 GB/s at 4 GiB, "
    )


def test_small_sizes_without_a_verdict_do_not_hide_that_of_the_largest_sizes() -> None:
    (verdict,) = judge(read(GOLDEN / "logs/h200_x4_nccl_single_process.txt"))
    latency, *others = verdict.bands
    reason = "latency: the times differ too much"
    unsure = replace(
        verdict,
        grade="UNSURE",
        reasons=(reason,),
        bands=(replace(latency, grade="UNSURE"), *others),
    )
    text = speed_sentence([unsure])
    assert text.startswith(
        "Speed: UNSURE: latency: the times differ too much; plateau GOOD: 353.2 GB/s at 1 GiB, expected "
    )
    assert text.endswith(f" GB/s ({H200}).")
    hidden = replace(unsure, bands=tuple(replace(band, grade="UNSURE") for band in unsure.bands))
    assert speed_sentence([hidden]) == f"Speed: UNSURE: {reason}."


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("records.jsonl", "the data are wrong."),
        ("seeds/001_07c4158c15b1b1b2.txt", "the system is not known."),
    ],
)
def test_the_reason_for_no_verdict(name: str, reason: str) -> None:
    assert sentence(name) == f"Speed: not judged: {reason}"


def test_an_empty_run_is_not_judged() -> None:
    assert speed_sentence(()) == "Speed: not judged: nothing was measured."


def gpu_record(busbw_gbps: float) -> str:
    """A complete record of 4 H200 with correct data and this busbw at every size."""
    header, _warning, row, *_others, end = (json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines())
    for rank in header["ranks"]:
        rank.update(device_name="NVIDIA H200", bus_id=f"0000:0{rank['rank']}:00")
    end.update(exit_code=0, reason="completed", out_of_bounds=0)
    lines = [header]
    for size_bytes in SIZES:
        algbw_gbps = busbw_gbps / 1.5  # 2 (n - 1) / n for 4 ranks
        time_us = size_bytes / algbw_gbps / 1e3
        for placement in ("out_of_place", "in_place"):
            figures = {"time_us": time_us, "algbw_gbps": algbw_gbps, "busbw_gbps": busbw_gbps, "placement": placement}
            sizes = {"size_bytes": size_bytes, "requested_bytes": size_bytes, "count": size_bytes // 4}
            lines.append({**row, **figures, **sizes, "stats": None, "samples_us": [], "device_time_us": None})
    return "".join(f"{json.dumps(line)}\n" for line in [*lines, end])


@pytest.mark.parametrize("command", [["run"], ["launch", "local", "--processes", "1"]])
@pytest.mark.parametrize(
    ("busbw_gbps", "start"),
    [(360, "Speed: GOOD: 360 GB/s at "), (160, "Speed: SLOW: 160 GB/s at ")],
)
def test_run_and_launch_state_the_speed_and_keep_the_exit_code(
    fake_engine: FakeEngine,
    here: Path,
    capfd: pytest.CaptureFixture[str],
    command: list[str],
    busbw_gbps: float,
    start: str,
) -> None:
    (fake_engine.folder / "record").write_text(gpu_record(busbw_gbps))
    program = fake_engine.folder / "all_reduce_perf"
    program.write_text(
        f'#!/bin/sh\nfor last in "$@"; do :; done\ncp {fake_engine.folder}/record .r\n'
        '[ "$last" = - ] && cat .r || cp .r "$last"\n'
    )
    assert main([*command, "--plot", "never", "all_reduce"]) == 0
    lines = capfd.readouterr().err.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Data: "))
    verdict, speed, place, *causes = lines[first:]
    assert verdict.startswith("Data: correct: all 5 rows right")
    assert speed.startswith(start)
    assert speed.endswith(f"({H200}).")
    assert place.startswith("Record: ")
    # A slow run leads to the checks of this machine, or of the nodes of the job.
    assert bool(causes) == (busbw_gbps == 160)
    assert all(re.match(r"Cause\?  .* \[[a-z0-9-]+\]$|.*\bbusbw doctor\b", cause) for cause in causes)
