"""Samples of GPU output in the documents are real: a recorded log has the rows, and busbw prints the sentence."""

from pathlib import Path

import pytest
from conftest import ROOT
from doc_commands import read_fences
from doc_pages import PAGES, page_name

from busbw.cli.outcome.speed import speed_sentence
from busbw.judge import judge
from busbw.readers import read
from busbw.system import find

GOLDEN = ROOT / "tests" / "golden"
P5 = ("seeds/003_e7e147d892a8e7dd.txt", "h100-p5")
SAMPLES = {
    "README.md": ("logs/h200_x4_sweep_c1.txt", None),
    "docs/tutorials/kubernetes.md": P5,
    "docs/tutorials/slurm.md": P5,
}
"""Page -> the log of its sentence about speed, and the system that the log does not state."""
ROW_TOKENS = 13


def text_lines(page: Path) -> list[str]:
    """Returns the lines of the text blocks of a page, with single blanks."""
    blocks = [fence.text for fence in read_fences(page) if fence.language == "text"]
    return [" ".join(line.split()) for block in blocks for line in block.splitlines()]


def speed_lines(page: Path) -> list[str]:
    return [line for line in text_lines(page) if line.startswith(("Speed: GOOD", "Speed: SLOW"))]


def recorded_rows() -> set[str]:
    """Returns the last 13 columns of each line of the recorded logs. Prefixes of launchers precede them."""
    logs = [*(GOLDEN / "seeds").glob("*.txt"), *(GOLDEN / "logs").glob("*.txt")]
    lines = (line.replace(":", ": ").split() for log in logs for line in log.read_text().splitlines())
    return {" ".join(tokens[-ROW_TOKENS:]) for tokens in lines}


def test_the_pages_with_a_sample_are_listed() -> None:
    assert {page_name(page) for page in PAGES if speed_lines(page)} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_busbw_prints_the_sentence_about_speed(name: str) -> None:
    log, system = SAMPLES[name]
    verdicts = judge(read(GOLDEN / log), system=find(system) if system else None)
    assert set(speed_lines(ROOT / name)) <= {speed_sentence([verdict]) for verdict in verdicts}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_recorded_log_has_the_rows(name: str) -> None:
    rows = [line for line in text_lines(ROOT / name) if line[:1].isdigit() and len(line.split()) == ROW_TOKENS]
    assert set(rows) <= recorded_rows()
    assert rows
