"""`busbw check` of logs with more tables than a screen can list: counts, and the worst of them."""

import json
from pathlib import Path

import pytest

from busbw.cli.main import main

HEADER = """# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: {collective}_perf
# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
{ranks}
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
"""
FOOTER = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : {average:.6g}
#
# Collective test concluded: {collective}_perf
#
"""


def run_text(times: float = 1.0, collective: str = "all_reduce", *, wrong: int = 0) -> str:
    """A run on 4 H200: 20 us, and 360 GB/s for large sizes, all of it `times` as slow."""
    ranks = "\n".join(
        f"#  Rank {rank:>2} Group  0 Pid    895 on         vm device {rank:>2} [0000:00:0{rank}] NVIDIA H200"
        for rank in range(4)
    )
    lines, busbws = [], []
    for power in range(3, 34, 2):
        size = 1 << power
        time_us = (20 + size / 240e3) * times
        busbws.append(1.5 * size / time_us / 1e3)
        figures = f"{time_us:.2f} {size / time_us / 1e3:.2f} {busbws[-1]:.2f}"
        lines.append(f"{size} {size // 4} float sum -1 {figures} {wrong} {figures} {wrong}\n")
    return (
        HEADER.format(collective=collective, ranks=ranks)
        + "".join(lines)
        + FOOTER.format(average=sum(busbws) / len(busbws), collective=collective)
    )


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["check", *arguments])
    return code, capsys.readouterr().out


def test_equal_verdicts_share_a_line_and_the_worst_is_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A soak test: the same command 150 times, 3 of them slow."""
    monkeypatch.setenv("COLUMNS", "200")
    log = tmp_path / "soak.txt"
    log.write_text("".join(run_text(4.0 if number in (17, 71, 130) else 1.0) for number in range(1, 151)))
    code, shown = check(capsys, str(log))
    assert code == 5
    summary, details = shown.split("\n\n")
    counts, slow, good = summary.splitlines()
    assert counts == "3 SLOW, 147 GOOD"
    assert slow.startswith("SLOW   all_reduce float sum, 4 ranks in tables 17, 71, 130; in table 17: ")
    assert good.startswith("GOOD   all_reduce float sum, 4 ranks in tables 1, 2, 3, 4 and 143 more; in table 1: ")
    assert details.startswith("SLOW  all_reduce float sum, 4 ranks\n")
    _, shown = check(capsys, str(log), "--json")
    assert len(json.loads(shown)["verdicts"]) == 150
    _, shown = check(capsys, str(log), "--all")
    assert shown.count("against") == 150


def test_different_verdicts_beyond_the_limit_are_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(105):
        (folder / f"{number:03}.txt").write_text(run_text(wrong=int(number >= 100)))
    code, shown = check(capsys, str(folder))
    assert code == 1
    counts, *lines, hidden = shown.split("\n\n")[0].splitlines()
    assert counts == "5 BROKEN, 100 GOOD"
    grades = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert grades == ["BROKEN"] * 5 + ["GOOD"] * 95
    assert hidden == "and 5 GOOD; `busbw check --json` has all verdicts"
