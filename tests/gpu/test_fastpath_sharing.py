"""Tests of the fast path with processes that share one GPU: queueing, capture, order and results.

NCCL 2.30 and newer can run several ranks on one GPU. The tests use a copy of the library that treats them as ranks on
several GPUs (tests/gpu/sharing). It is in the folder of the programs. The GPU runs one process at a time for some
milliseconds, so everything is slow and times mean nothing.
"""

import subprocess

import pytest

from .fast_path import CASES, COLLECTIVES, TWO_SHOT, FastPath
from .machine import Machine, built_file

SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_TESTS_DEVICE": "0"}
CAN_SHARE = (2, 30)
SIZES = ["--sizes", "2,120,1000,65534,1M", "-n", 2, "-w", 1]
EVERYTHING = ["-d", "all", "-o", "all", "--sizes", "1000,100003", "-n", 1, "-w", 1]


@pytest.fixture
def fast(gpus: Machine) -> FastPath:
    library = built_file(gpus, "libbusbw_nccl_sharing.so")
    version = gpus.run("all_reduce", "-t", 1, "-b", 8, "-e", 8, "-n", 1).facts()["nccl_version"]
    if tuple(map(int, version.split("."))) < CAN_SHARE:
        pytest.skip(f"NCCL {version} has no two ranks on one GPU")
    return FastPath(gpus, library)


def check(fast: FastPath, ranks: int, collective: str, *arguments: object, **more: str) -> dict[str, int]:
    return fast.check_processes(collective, [SHARED] * ranks, *arguments, **more)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_sizes(fast: FastPath, collective: str, ranks: int) -> None:
    methods = check(fast, ranks, collective, *SIZES, "-d", "half", BUSBW_FASTPATH_METHOD="exchange,16,512")
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_type_and_operator(fast: FastPath, collective: str) -> None:
    methods = check(fast, 2, collective, *EVERYTHING, BUSBW_FASTPATH_METHOD="exchange,7,96")
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize("collective", TWO_SHOT)
def test_two_shot(fast: FastPath, collective: str) -> None:
    methods = check(fast, 4, collective, *SIZES, "-d", "bfloat16", BUSBW_FASTPATH_METHOD="two_shot,16,256")
    assert methods["two_shot"] > 0, methods


@pytest.mark.parametrize("mode", ["on", "verify"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_graphs(fast: FastPath, collective: str, mode: str) -> None:
    methods = check(fast, 2, collective, *SIZES, "-d", "float", "-G", 3, BUSBW_FASTPATH=mode)
    assert methods["exchange"] > 0, methods


def start(fast: FastPath, ranks: int, *words: object) -> "subprocess.CompletedProcess[str]":
    """Runs fastpath_stress."""
    stress = [built_file(fast.machine, "fastpath_stress"), "--gpus", ranks, "--mode", "sharing", *words]
    return fast.start(stress, NCCL_MULTI_RANK_GPU_ENABLE="1")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_mix(fast: FastPath, ranks: int, seed: int) -> None:
    done = start(fast, ranks, "--seconds", 8, "--seed", 300 + seed)
    assert done.returncode == 0, done
    assert "wrong 0" in done.stdout
    assert fast.methods()["exchange"] > 0


def test_a_planted_byte_is_found_in_a_mix(fast: FastPath) -> None:
    done = start(fast, 2, "--seconds", 5, "--plant", 2)
    assert done.returncode == 1, done
    assert "WRONG: " in done.stdout


@pytest.mark.parametrize("name", CASES)
def test_a_case(fast: FastPath, name: str) -> None:
    fast.expect_right(name, start(fast, 2, "--case", name, "--rounds", 2))
