"""Does a machine without a usable GPU get one sentence with the remedy, and exit code 3?

The driver is a library of this test, so that the same happens everywhere. The installed programs are asked, and those
that are built with the GPU engine; a build without it says that.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import installed_in
from polling import HANG_GUARD_S, wait_until

from busbw import engine

from .programs import Finished, Programs, Running, compile_fake, used_from

WITH_GPU_ENGINE = Path(__file__).parents[2] / "build" / "gpu-compile"

NO_DEVICE = 100
NO_MEMORY = 2
NOT_READY = 802
MISMATCH = 803
UNKNOWN = 999
ENOUGH = 99000
OLD = 9000


@pytest.fixture(params=["installed", "with the GPU engine"])
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Programs]:
    folder = installed_in() if request.param == "installed" else WITH_GPU_ENGINE
    if not (folder / "busbw-engine").exists():
        pytest.skip(f"there is no {folder}/busbw-engine: tools/test.sh builds it where it has CUDA's compiler")
    yield from used_from(folder, tmp_path)


def start(programs: Programs, *arguments: object, visible: str = "0", **definitions: object) -> Running:
    """An all-reduce with a driver that does as the definitions say."""
    compile_fake("fake_cuda.c", programs.folder / "libcuda.so.1", **definitions)
    environment = {"LD_LIBRARY_PATH": str(programs.folder), "CUDA_VISIBLE_DEVICES": visible}
    return programs.start("all_reduce", *arguments, "-b", 8, "-e", 8, "-n", 1, environment=environment)


def run(programs: Programs, *arguments: object, version: int, init: int, visible: str) -> Finished:
    return start(programs, *arguments, visible=visible, driver_version=version, init=init).finish()


def has_gpu_engine(programs: Programs) -> bool:
    return "no GPU engine" not in programs.run("busbw-engine", "--list-devices").stderr


@pytest.mark.parametrize(
    ("version", "init", "visible", "said"),
    [
        (OLD, NO_DEVICE, "0", ["the driver supports CUDA 9.0", "newer driver"]),
        (ENOUGH, NO_DEVICE, "99", ["CUDA_VISIBLE_DEVICES=99 shows no GPU", "nvidia-smi -L"]),
        (ENOUGH, NO_DEVICE, "", ["CUDA_VISIBLE_DEVICES= hides all GPUs", "unset it"]),
        (ENOUGH, NOT_READY, "0", ["cudaErrorSystemNotReady", "fabricmanager"]),
        (ENOUGH, MISMATCH, "0", ["libcuda.so.1", "different versions", "LD_LIBRARY_PATH"]),
        (ENOUGH, NO_MEMORY, "0", ["memory is short", "nvidia-smi"]),
        (ENOUGH, UNKNOWN, "0", ["gives no reason", "nvidia_uvm"]),
    ],
)
def test_cuda_that_does_not_start(programs: Programs, version: int, init: int, visible: str, said: list[str]) -> None:
    finished = run(programs, "--backend", "nccl", version=version, init=init, visible=visible)
    assert (finished.code, finished.stdout) == (3, "")
    sentence = finished.sentence()
    for words in said if has_gpu_engine(programs) else ["no GPU engine"]:
        assert words in sentence
    assert sentence.endswith("or use --backend host")


def test_the_version_names_the_backend_of_gpus_where_there_is_one(programs: Programs) -> None:
    finished = programs.run("busbw-engine", "--version")
    assert ("backend nccl, built with the headers of 2." in finished.stdout) == has_gpu_engine(programs)


def test_flags_of_gpus_on_a_machine_without(programs: Programs) -> None:
    finished = run(programs, "-g", 2, version=ENOUGH, init=NO_DEVICE, visible="99")
    assert finished.stdout == ""
    assert "-g 2 (--ngpus)" in finished.sentence()
    if has_gpu_engine(programs):
        assert finished.code == 3
        assert "no GPU found: CUDA_VISIBLE_DEVICES=99 shows no GPU" in finished.sentence().partition("-g 2")[0]
    else:
        assert finished.code == 2  # no machine would help this build


def test_a_host_run_without_a_gpu_reports_it(programs: Programs) -> None:
    finished = run(programs, "-t", 2, version=ENOUGH, init=NO_DEVICE, visible="99")
    assert (finished.code, finished.stderr) == (0, "")
    note = "# Measured on the host: CUDA_VISIBLE_DEVICES=99 shows no GPU"
    assert (note in finished.stdout) == has_gpu_engine(programs)


def test_gpus_that_the_build_cannot_use_are_a_warning(programs: Programs) -> None:
    if has_gpu_engine(programs):
        return  # it can use them
    devices = programs.folder / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (devices / name).touch()
    # A mount of its own gives only the program these device files.
    script = 'mount --bind dev /dev && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", str(programs.path("all_reduce_perf")), "-t", "2"]
    flags = ["-b", "8", "-e", "8", "-n", "1", "--records", "out.jsonl"]
    done = subprocess.run([*words, *flags], cwd=programs.folder, capture_output=True, text=True, timeout=HANG_GUARD_S)
    if "Operation not permitted" in done.stderr:
        pytest.skip("a mount namespace needs root")
    assert (done.returncode, done.stderr) == (0, "")
    warning = "measured on the host, but this machine has 2 GPUs: this build has no GPU engine: run `make wheel` "
    assert f"# Warning: {warning}" in done.stdout
    records = [json.loads(line) for line in (programs.folder / "out.jsonl").read_text().splitlines()]
    messages = [record["message"] for record in records if record["kind"] == "warning"]
    assert any(message.startswith(warning) for message in messages)
    chosen = subprocess.run(
        [*words, *flags[:-2], "--backend", "host"], cwd=programs.folder, capture_output=True, text=True
    )
    assert "this machine has" not in chosen.stdout


def test_the_command_reads_the_reason_from_the_engine(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_PROGRAMS", str(programs.installed_in))
    reason = "this build has no GPU engine: run `make wheel` and install its wheel, or use --backend host"
    assert engine.missing_gpu_support() == ("" if has_gpu_engine(programs) else reason)


def test_requested_gpus_that_are_absent_are_an_error(programs: Programs) -> None:
    compile_fake("fake_cuda.c", programs.folder / "libcuda.so.1", driver_version=ENOUGH, init=NO_DEVICE)
    environment = {"BUSBW_REQUESTED_GPUS": "8", "LD_LIBRARY_PATH": str(programs.folder), "CUDA_VISIBLE_DEVICES": "99"}
    finished = programs.run("all_reduce", "-t", 2, "-b", 8, "-e", 8, environment=environment)
    assert (finished.code, finished.stdout) == (3, "")
    reason = "CUDA_VISIBLE_DEVICES=99 shows no GPU" if has_gpu_engine(programs) else "this build has no GPU engine"
    assert f"GPUs are requested (BUSBW_REQUESTED_GPUS=8), but {reason}" in finished.sentence()


@pytest.mark.parametrize("flags", [["--backend", "nccl"], ["--backend", "nccl", "--processes", 2], ["-t", 2]])
def test_a_driver_that_does_not_answer(programs: Programs, flags: list[object]) -> None:
    asks = has_gpu_engine(programs)
    # A measurement instead of a query may take longer on a busy machine.
    hanging = start(programs, *flags, "-T", 1 if asks else 60, driver_version=ENOUGH, init=0, hangs=1)
    finished = hanging.finish()
    if asks:
        assert (finished.code, finished.stdout) == (4, "")
        for words in ("no answer for 1 s (-T) while looking for GPUs", "nvidia-smi", "--backend host"):
            assert words in finished.sentence()
    else:
        assert finished.code == (0 if flags[0] == "-t" else 3)


def test_ctrl_c_while_the_driver_does_not_answer(programs: Programs) -> None:
    if not has_gpu_engine(programs):
        return  # it does not ask
    hanging = start(programs, "-t", 2, driver_version=ENOUGH, init=0, hangs=1)
    wait_until((programs.folder / "asked").exists, "the driver was asked")
    hanging.interrupt_group()
    finished = hanging.finish()
    assert (finished.code, finished.stdout) == (130, "")
    assert finished.sentence() == "all_reduce_perf: interrupted while looking for GPUs"
