"""Does a machine without a usable GPU get one sentence with the remedy, and exit code 3?

The driver is a library of this test, so that the same happens everywhere. A build without the GPU engine says that.
"""

import subprocess
from pathlib import Path

import pytest

from .programs import Finished, Programs

NO_DEVICE = 100
NOT_READY = 802
ENOUGH = 99000
OLD = 9000


def run(programs: Programs, *arguments: object, version: int, init: int, visible: str) -> Finished:
    fake = programs.folder / "libcuda.so.1"
    definitions = [f"-DDRIVER_VERSION={version}", f"-DINIT={init}"]
    source = Path(__file__).with_name("fake_cuda.c")
    subprocess.run(["c++", "-x", "c", "-shared", "-fPIC", *definitions, "-o", fake, source], check=True)
    environment = {"LD_LIBRARY_PATH": str(programs.folder), "CUDA_VISIBLE_DEVICES": visible}
    return programs.run("all_reduce", *arguments, "-b", 8, "-e", 8, "-n", 1, environment=environment)


def has_gpu_engine(programs: Programs) -> bool:
    return "no GPU engine" not in programs.run("busbw-engine", "--list-devices").stderr


@pytest.mark.parametrize(
    ("version", "init", "visible", "said"),
    [
        (OLD, NO_DEVICE, "0", ["the driver is made for CUDA 9.0", "newer driver"]),
        (ENOUGH, NO_DEVICE, "99", ["CUDA_VISIBLE_DEVICES=99 shows no GPU", "nvidia-smi -L"]),
        (ENOUGH, NO_DEVICE, "", ["CUDA_VISIBLE_DEVICES= hides all GPUs", "unset it"]),
        (ENOUGH, NOT_READY, "0", ["cudaErrorSystemNotReady", "fabricmanager"]),
    ],
)
def test_cuda_that_does_not_start(programs: Programs, version: int, init: int, visible: str, said: list[str]) -> None:
    finished = run(programs, "--backend", "nccl", version=version, init=init, visible=visible)
    assert (finished.code, finished.stdout) == (3, "")
    sentence = finished.sentence()
    for words in said if has_gpu_engine(programs) else ["no GPU engine"]:
        assert words in sentence
    assert sentence.endswith("or use --backend host")


def test_flags_of_gpus_on_a_machine_without(programs: Programs) -> None:
    finished = run(programs, "-g", 2, version=ENOUGH, init=NO_DEVICE, visible="99")
    assert finished.stdout == ""
    assert "-g 2 (--ngpus)" in finished.sentence()
    if has_gpu_engine(programs):
        assert finished.code == 3
        assert "GPUs were looked for: CUDA_VISIBLE_DEVICES=99 shows no GPU" in finished.sentence()
    else:
        assert finished.code == 2  # no machine would help this build


def test_a_run_on_the_host_for_want_of_a_gpu_says_so(programs: Programs) -> None:
    finished = run(programs, "-t", 2, version=ENOUGH, init=NO_DEVICE, visible="99")
    assert (finished.code, finished.stderr) == (0, "")
    note = "# Measured on the host: CUDA_VISIBLE_DEVICES=99 shows no GPU"
    assert (note in finished.stdout) == has_gpu_engine(programs)
