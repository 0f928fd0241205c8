"""`busbw doctor --log` as a user calls it, with files and pipes of any kind."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doctor_logs import Job, changed, healthy_log

from busbw.cli.main import main
from busbw.doctor.nccl_log.reader import read_nccl_log

IB = healthy_log(Job())
FOUR_NODES = healthy_log(Job(nodes=4))
SLOW = changed(FOUR_NODES, r" \[7\]mlx5_7:1/IB", "", host="node1")
LIMIT_S = 5.0
PROGRAM = [sys.executable, "-m", "busbw", "doctor", "--log"]


def written(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_a_healthy_log_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--log", written(tmp_path / "job.log", IB)]) == 0
    assert "Could not check" not in capsys.readouterr().out


def test_a_log_without_messages_cannot_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "job.log", ["no message of NCCL"])
    assert main(["doctor", "--log", path]) == 3
    assert main(["doctor", "--log", path, "--fail-on", "log-network"]) == 3
    assert "could not check: messages of NCCL" in capsys.readouterr().out


def test_a_finding_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "job.log", SLOW)
    assert main(["doctor", "--log", path, "--system", "h100-sxm", "--json"]) == 5
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["evidence"][0]["from"].startswith("job.log line ")
    assert finding["cost"]["busbw_now_gbps"] < finding["cost"]["busbw_fixed_gbps"]


def test_files_of_the_ranks_are_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = []
    for host in ("node0", "node1", "node2", "node3"):
        path = tmp_path / f"{host}.log"
        options += ["--log", written(path, [line for line in SLOW if line.startswith(f"{host}:")])]
    assert main(["doctor", *options]) == 5
    assert "[log-adapters]" in capsys.readouterr().out


def test_a_path_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    assert main(["doctor", "--log", str(tmp_path / "none.log")]) == 2
    assert main(["doctor", "--log", str(tmp_path)]) == 2


def test_standard_input_is_a_log(tmp_path: Path) -> None:
    done = subprocess.run([*PROGRAM, "-"], input="\n".join(SLOW), capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert "standard input line" in done.stdout


def test_a_pipe_without_an_end_is_not_waited_for() -> None:
    reading, writing = os.pipe()
    os.write(writing, "\n".join([*SLOW[:200], ""]).encode()[:60_000])
    # The pipe stays open, so a command that waits for its end does not end before this limit.
    done = subprocess.run([*PROGRAM, "-"], stdin=reading, capture_output=True, text=True, check=False, timeout=30)
    os.close(writing)
    assert done.returncode in (3, 5)
    assert "did not arrive in time" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_endless_device_ends_in_time() -> None:
    log = read_nccl_log([Path("/dev/zero")], limit_s=0.5)
    assert log.unread == "the rest of zero: the time limit is over"


def test_a_log_of_100_mb_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    block = "".join(f"{line}\n" for line in healthy_log(Job(nodes=16))).encode()
    with path.open("wb") as file:
        for _ in range(100_000_000 // len(block)):
            file.write(block)
    start = time.process_time()
    log = read_nccl_log([path], limit_s=60)
    assert time.process_time() - start < LIMIT_S
    assert log.max_host_count == 16
    assert log.unread is None
