"""Tests of the compiled accesses to the tag words with which kernels on different streams wait for each other."""

import re
import subprocess
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

ROOT = Path(__file__).resolve().parents[3]

KERNEL = """
#include "fastpath/device/kernel.cuh"
#include "fastpath/schedule/work.hpp"
namespace busbw::fastpath {
template __global__ void run_operation<2, AllGather, Method::exchange>(
    const __grid_constant__ Lane, const __grid_constant__ AllGather, const int, const int);
}
"""


def compiled(folder: Path, text: str) -> str:
    """Returns the PTX of a CUDA source."""
    nvcc = next(ROOT.glob("build/cuda-env/lib/python3*/site-packages/nvidia/cu1*/bin/nvcc"), None)
    if nvcc is None:
        pytest.skip("CUDA's compiler is not installed: run tools/setup.sh")
    source, ptx = folder / "kernel.cu", folder / "kernel.ptx"
    source.write_text(text)
    includes: list[str | Path] = [
        "-I",
        ROOT,
        "-I",
        ROOT / "build/gpu-compile/generated",
    ]  # CMake generates collectives.inc there
    command: list[str | Path] = [nvcc, "-std=c++20", "-arch=sm_90", *includes, "-ptx", source, "-o", ptx]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert done.returncode == 0, done
    return ptx.read_text()


def test_words_of_tags_are_written_and_read_past_caches(tmp_path: Path) -> None:
    """CUDA does not define a plain write that a concurrent kernel polls."""
    words = r"\.volatile\.(?:global\.)?u64\s"  # lines have two
    assert re.search("st" + words, compiled(tmp_path, KERNEL))
    assert re.search("ld" + words, compiled(tmp_path, (ROOT / "fastpath" / "device" / "launch.cu").read_text()))
