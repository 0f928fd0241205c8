"""Tests that separately started processes form one job, and that processes that do not match are refused."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .machine import HANG_GUARD_S, Machine, free_port


def ends_of(machine: Machine, environments: Sequence[dict[str, str]]) -> list[tuple[int, str]]:
    """Starts one process for each element and returns the exit code and stderr of each."""
    store = f"tcp://127.0.0.1:{free_port()}"
    processes = []
    for number, environment in enumerate(environments):
        place = {
            "BUSBW_RANK": str(number),
            "BUSBW_SIZE": str(len(environments)),
            "BUSBW_LOCAL_RANK": str(number),
            "BUSBW_LOCAL_SIZE": str(len(environments)),
            "BUSBW_RENDEZVOUS": store,
            "BUSBW_TOKEN": "of-these-tests",
            "NCCL_NVLS_ENABLE": "0",
        }
        processes.append(
            subprocess.Popen(
                [str(machine.programs / "all_reduce_perf"), "--backend", "nccl", "-b", "8", "-e", "1K", "-n", "2"],
                env={**os.environ, **place, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        said = [process.communicate(timeout=HANG_GUARD_S)[1] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def test_they_are_one_job(several: Machine, gpus: Machine) -> None:
    assert [code for code, _ in ends_of(gpus, [{}] * several.count)] == [0] * several.count


def test_two_on_one_gpu(gpus: Machine) -> None:
    for code, said in ends_of(gpus, [{"CUDA_VISIBLE_DEVICES": "0"}] * 2):
        assert code == 3, said
        assert "ranks 0 and 1 would share GPU " in said


def test_another_file_of_the_same_version(several: Machine, gpus: Machine, tmp_path: Path) -> None:
    found = several.run("all_reduce", "-t", 1, "-b", 8, "-e", 8)
    (run,) = found.of_kind("run")
    library = run["ranks"][0]["library"]
    other = tmp_path / "libnccl.so.2"
    shutil.copyfile(library["path"], other)
    with other.open("ab") as file:
        file.write(b"\0")  # the copy works, but its contents differ
    for code, said in ends_of(gpus, [{"BUSBW_NCCL_LIBRARY": str(path)} for path in (library["path"], other)]):
        assert code == 2, said
        assert "process 1 on " in said
        for named in (library["path"], str(other), library["sha256"], "--library"):
            assert named in said
