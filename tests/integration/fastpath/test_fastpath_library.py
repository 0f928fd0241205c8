"""Tests of the fast-path library with several versions of NCCL, which can be loaded without a GPU.

`make test` builds two libraries: one that forwards every call to NCCL, and the one for GPUs.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

from ..programs import compile_fake

BUILD = Path(__file__).resolve().parents[3] / "build"
GPU = BUILD / "gpu-compile"
PLAIN = (GPU if GPU.exists() else BUILD / "dev") / "fastpath"
LIBRARIES = {"forward": PLAIN / "libbusbw_nccl_forward.so", "gpu": GPU / "libbusbw_nccl.so"}
PROGRAM = PLAIN / "linked_caller"
VERSIONS = {"2.18.3": 21803, "2.28.9": 22809, "2.32.3": 23203}

ASK = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.ncclGetErrorString.restype = library.pncclGetErrorString.restype = ctypes.c_char_p
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
print(version.value, library.ncclGetErrorString(2), library.pncclGetErrorString(5), library.ncclCommDestroy(None))
print(library.ncclGetVersion(None), library.ncclCommCount(None, None))
"""
"""Needs no driver: errors are found before one is asked for."""


def nccl(version: str) -> Path:
    """The library of a wheel that tools/setup.sh test has installed."""
    found = BUILD / "nccl-wheels" / version / "nvidia/nccl/lib/libnccl.so.2"
    if not found.exists():
        found = next(BUILD.glob("cuda-env/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"), found)
    if not found.exists():
        pytest.skip(f"NCCL {version} is not installed: run tools/setup.sh test")
    return found


def library(name: str) -> Path:
    if not LIBRARIES[name].exists():
        pytest.skip(f"{LIBRARIES[name].name} is not built: run tools/test.sh")
    return LIBRARIES[name]


def functions(file: Path) -> set[str]:
    """The names that leave a library, without those that every linker adds."""
    listed = subprocess.run(["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines()} - {"_edata", "_end", "__bss_start"}


def output(command: list[str | Path], folder: Path | None = None, /, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BUSBW_")} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_function_of_nccl_is_exported(name: str, version: str) -> None:
    real = functions(nccl(version))
    assert len(real) > 50
    assert real - functions(library(name)) == set()


@pytest.mark.parametrize("name", LIBRARIES)
def test_nothing_but_names_of_nccl_is_exported(name: str) -> None:
    ours = functions(library(name))
    assert {each for each in ours if not re.match(r"p?nccl[A-Z]", each)} == set()


@pytest.mark.parametrize("name", LIBRARIES)
def test_it_needs_no_library_beside_the_systems(name: str) -> None:
    """A program that loads it may lack other libraries, or have other versions of them."""
    listed = subprocess.run(["readelf", "-dW", library(name)], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed))
    system = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6", "libgcc_s.so.1"}
    allowed = system | {each for each in needed if each.startswith("ld-linux")}
    if name == "forward":  # the build for tests takes fmt as the distribution has it
        allowed |= {each for each in needed if each.startswith("libfmt.so.")}
    assert needed - allowed == set()


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("version", VERSIONS)
def test_results_equal_those_of_the_real_library(name: str, version: str) -> None:
    real = nccl(version)
    asked = [sys.executable, "-c", ASK]
    through = output([*asked, library(name)], BUSBW_FASTPATH_NCCL=str(real))
    assert through == output([*asked, real])
    assert through.startswith(f"{VERSIONS[version]} b'")


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("version", VERSIONS)
def test_preloaded_it_finds_the_nccl_that_the_program_is_linked_with(name: str, version: str) -> None:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM.name} is not built: run tools/test.sh")
    variables = {"LD_PRELOAD": str(library(name)), "LD_LIBRARY_PATH": str(nccl(version).parent)}
    assert output([PROGRAM, "-", "version"], **variables) == f"{VERSIONS[version]}\n"
    assert output([PROGRAM, "-", "alias", "ncclAllReduce"], **variables) == f"ncclAllReduce: {library(name)}\n"


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_program_that_never_calls_nccl_gets_neither_nccl_nor_a_driver(name: str) -> None:
    maps = output(["cat", "/proc/self/maps"], LD_PRELOAD=str(library(name)), BUSBW_FASTPATH_NCCL=str(nccl("2.28.9")))
    loaded = {Path(line.split()[-1]).name for line in maps.splitlines()}
    assert library(name).name in loaded
    assert {each for each in loaded if re.match(r"lib(nccl|cuda|nvidia)", each)} == set()


MAKE = """
import ctypes, sys
class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
library = ctypes.CDLL(sys.argv[1])
communicator = ctypes.c_void_p()
print(library.ncclCommInitRank(ctypes.byref(communicator), 2, UniqueId(), 0), bool(communicator))
"""


def log_of_creation(folder: Path, name: str, **definitions: str) -> str:
    """Creates a communicator with a fake NCCL and returns the fast path's log."""
    fake, log = folder / "libnccl.so.2", folder / "log"
    compile_fake("fake_nccl.c", fake, **definitions)
    variables = {"BUSBW_FASTPATH_NCCL": str(fake), "BUSBW_FASTPATH_LOG": str(log)}
    variables |= {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": str(folder)}
    assert output([sys.executable, "-c", MAKE, library(name)], folder, **variables) == "0 True\n"
    return log.read_text()


@pytest.mark.parametrize(
    ("version", "said"), [("12040", "the driver supports CUDA 12.4, but this library needs CUDA 13."), (None, "CUDA")]
)
def test_every_call_is_delegated_if_cuda_cannot_start(tmp_path: Path, version: str | None, said: str) -> None:
    """A driver may be new enough for the program's CUDA but too old for this library's. Other ranks are informed."""
    if version:
        compile_fake("fake_cuda.c", tmp_path / "libcuda.so.1", driver_version=version, init=0)
    text = log_of_creation(tmp_path, "gpu")
    assert f"every call is delegated to NCCL: {said}" in text
    gathered = (tmp_path / "gathered").read_text().splitlines()
    assert len(gathered) == 3  # the number of gathers that the other ranks expect (clique_setup.cpp)
    assert len(set(gathered)) == 1
    assert re.fullmatch(r"1 \d+ bytes of type 1 on stream \(nil\)", gathered[0])


def test_the_configuration_file_of_nccl_is_respected(tmp_path: Path) -> None:
    """NCCL's first call reads its configuration file, which may make communicators non-blocking."""
    text = log_of_creation(tmp_path, "gpu", blocking='"0"')
    assert "delegated to NCCL, because it is non-blocking" in text
