"""Logs of healthy jobs, and any order, repetition and mixture of their lines."""

import gzip
import random
from pathlib import Path

import pytest
from doctor_logs import HEALTHY, Job, examine, healthy_log
from log_wrappers import ALL_WRAPPERS, COUNTERS, PREFIXES

from busbw.errors import UsageError

LINES = healthy_log(Job(nodes=3))


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_has_no_finding(tmp_path: Path, name: str) -> None:
    result = examine(tmp_path, healthy_log(HEALTHY[name]))
    assert not result.findings
    assert not result.could_not_check
    assert "log-peers" in result.passed


@pytest.mark.parametrize("name", ALL_WRAPPERS)
def test_prefixes_of_launchers_change_nothing(tmp_path: Path, name: str) -> None:
    result = examine(tmp_path, ALL_WRAPPERS[name](LINES).encode())
    assert not result.findings
    if name in {**PREFIXES, **COUNTERS}:
        assert result.passed == examine(tmp_path, LINES).passed


def test_a_compressed_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compressed"):
        examine(tmp_path, gzip.compress("".join(f"{line}\n" for line in LINES).encode()))


@pytest.mark.parametrize("seed", range(8))
def test_changed_lines_invent_no_finding(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = list(LINES)
    content = "".join(f"{line}\n" for line in lines).encode()
    shuffled = chance.sample(lines, len(lines))
    assert not examine(tmp_path, shuffled).findings
    assert not examine(tmp_path, chance.choices(lines, k=len(lines))).findings
    for _ in range(20):
        assert not examine(tmp_path, content[: chance.randrange(len(content))]).findings
        assert not examine(tmp_path, content[chance.randrange(len(content)) :]).findings
    glued = "".join(line + ("" if chance.random() < 0.3 else "\n") for line in shuffled)
    assert not examine(tmp_path, glued.encode()).findings


@pytest.mark.parametrize("seed", range(8))
def test_processes_that_write_into_each_other_invent_no_finding(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    writers = [list(LINES[index::4]) for index in range(4)]
    content = ""
    while any(writers):
        writer = chance.choice([each for each in writers if each])
        line = writer.pop(0)
        if chance.random() < 0.1 and len(line) > 40:
            cut = chance.randrange(1, len(line))
            writer.insert(0, line[cut:])
            content += line[:cut]
        else:
            content += f"{line}\n"
    assert not examine(tmp_path, content.encode()).findings


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_no_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray("".join(f"{line}\n" for line in LINES).encode())
    for _ in range(2000):
        content[chance.randrange(len(content))] = chance.randrange(256)
    examine(tmp_path, bytes(content))  # must not raise
    examine(tmp_path, chance.randbytes(5000) + b"NCCL WARN " + chance.randbytes(5000))


def test_a_log_without_messages_of_nccl_decides_nothing(tmp_path: Path) -> None:
    for content in (b"", b"epoch 1: loss 2.1\n" * 1000, b"\0" * 100_000):
        result = examine(tmp_path, content)
        assert not result.passed
        assert not result.findings
        assert "NCCL_DEBUG=INFO" in result.could_not_check[0].missing


def test_warnings_alone_do_not_show_the_network(tmp_path: Path) -> None:
    lines = [
        "NCCL version 2.27.7+cuda12.9",
        "n1:1:2 [0] misc/socket.cc:1 NCCL WARN Message truncated : received 8 bytes instead of 4",
    ]
    result = examine(tmp_path, lines)
    assert [finding.check for finding in result.findings] == ["log-foreign-message"]
    assert {"log-network", "log-gpudirect"} <= {each.check for each in result.could_not_check}


def test_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    lines = [
        "n1\x1b[31m:1:2 [0] misc/socket.cc:1 NCCL WARN Connection closed by remote peer \x1b]0;x\x07",
        "n\x9b1:1:2 [0] NCCL INFO Using network Socket\x1b[2J",
        "n1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to \x1b[2JRing",
    ]
    result = examine(tmp_path, "\n".join(lines).encode())
    assert result.findings
    assert all(
        text.isprintable() for finding in result.findings for text in (finding.problem, *map(str, finding.evidence))
    )
