"""Configures the project on machines with a broken CUDA: an optional part must not fail the build."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

CMAKE = shutil.which("cmake") or ""
REFUSES_EVERYTHING = "#!/bin/sh\necho 'nvcc: cannot execute' >&2\nexit 1\n"
NAMES_GPUS_BUT_COMPILES_NOTHING = """#!/bin/sh
[ "$1" = --list-gpu-arch ] && { echo compute_80; echo compute_90; exit 0; }
echo 'nvcc fatal: host compiler not supported' >&2
exit 1
"""


class Machine:
    """A folder with programs, headers and libraries that CMake searches before those of the real machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def configure(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """Configures the project without tests. `busbw_python` answers nothing, so no wheel of CUDA is found."""
        return subprocess.run(
            [
                *(CMAKE, "-S", str(ROOT), "-B", str(self.folder / "build"), "-DBUSBW_BUILD_TESTS=OFF"),
                *(f"-DCMAKE_PREFIX_PATH={self.folder}", f"-Dbusbw_python={shutil.which('true')}", *options),
            ],
            env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def with_cuda(machine: Machine, nvcc: str) -> Machine:
    machine.add("bin/nvcc", nvcc)
    machine.add("include/nccl_device.h")
    machine.add("lib/libcudart_static.a")
    return machine


@pytest.mark.parametrize(
    ("nvcc", "problem"),
    [
        (REFUSES_EVERYTHING, "bin/nvcc --list-gpu-arch names no known GPU"),
        (NAMES_GPUS_BUT_COMPILES_NOTHING, "bin/nvcc cannot compile a file with nccl_device.h of NCCL 2.28.9, see "),
    ],
)
def test_a_broken_compiler_leaves_out_the_gpu_engine(machine: Machine, nvcc: str, problem: str) -> None:
    done = with_cuda(machine, nvcc).configure()
    assert done.returncode == 0, done.stderr
    assert f"-- the GPU engine is not built: {machine.folder}/{problem}" in done.stdout
    assert "CMake Error" not in done.stderr


def test_an_old_header_leaves_out_the_gpu_engine(machine: Machine) -> None:
    """NCCL 2.28.3 has the header, but not all members that the engine needs."""
    nvcc = next((ROOT / "build" / "cuda-env").glob("lib/python3*/site-packages/nvidia/cu13/bin/nvcc"), None)
    if nvcc is None:
        pytest.skip("needs CUDA's compiler: tools/cuda_env.sh")
    machine.add("include/nccl.h")
    machine.add("include/nccl_device.h", "struct ncclDevCommRequirements { int lsaBarrierCount; };\n")
    done = machine.configure(f"-DCMAKE_CUDA_COMPILER={nvcc}", "-DCMAKE_CUDA_ARCHITECTURES=90-real")
    assert done.returncode == 0, done.stderr
    assert "-- the GPU engine is not built: " in done.stdout
    assert "barrierCount" in (machine.folder / "build" / "cuda-trial" / "log").read_text()


def test_a_required_gpu_engine_reports_the_broken_compiler(machine: Machine) -> None:
    done = with_cuda(machine, NAMES_GPUS_BUT_COMPILES_NOTHING).configure("-DBUSBW_CUDA=ON")
    assert done.returncode != 0
    assert "BUSBW_CUDA=ON:" in done.stderr
    assert "CMake Error" in (machine.folder / "build" / "cuda-trial" / "log").read_text()


def test_a_header_without_a_compiler_and_a_partial_mpi_change_nothing(machine: Machine) -> None:
    machine.add("include/nccl_device.h")
    machine.add("include/nccl.h")
    machine.add("bin/mpicc", f"#!/bin/sh\necho -I{machine.folder}/missing\n")
    machine.add("bin/mpicxx", f"#!/bin/sh\necho -I{machine.folder}/missing\n")
    done = machine.configure()
    assert done.returncode == 0, done.stderr
    assert "MPI" not in done.stdout + done.stderr
