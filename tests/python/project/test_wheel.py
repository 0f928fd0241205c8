"""Requirements that `make wheel` checks on the wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from busbw.collectives import COLLECTIVES

SCRIPTS = "busbw-0.1.0.data/scripts"
SHARE = "busbw-0.1.0.data/data/share"
WHOLE = {
    f"{SCRIPTS}/busbw-engine": 100,
    **{f"{SCRIPTS}/{name}_perf": 10 for name in [*COLLECTIVES, "comm_ops"]},
    "busbw/lib/libbusbw_nccl.so": 100,
    "busbw/lib/libbusbw_profiler.so": 100,
    "busbw/fastpath/tables/sm_90.txt": 10,
    f"{SHARE}/man/man1/busbw.1": 10,
    f"{SHARE}/man/man1/all_reduce_perf.1": 10,
    f"{SHARE}/bash-completion/completions/busbw": 10,
    f"{SHARE}/fish/vendor_completions.d/busbw.fish": 10,
    f"{SHARE}/zsh/site-functions/_busbw": 10,
}


def checked(folder: Path, files: dict[str, int], build_tag: str = "1gpu") -> tuple[int, str]:
    wheel = folder / f"busbw-0.1.0-{build_tag}-py3-none-linux.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in files.items():
            archive.writestr(name, bytes(size))
    command = [sys.executable, str(ROOT / "tools" / "check_wheel.py"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_whole_wheel_passes(tmp_path: Path) -> None:
    assert checked(tmp_path, WHOLE) == (
        0,
        "busbw-engine: 100 bytes\nlibbusbw_nccl.so: 100 bytes\nlibbusbw_profiler.so: 100 bytes\n",
    )


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("busbw/lib/libbusbw_nccl.so", "busbw/lib/libbusbw_nccl.so is missing"),
        ("busbw/lib/libbusbw_profiler.so", "busbw/lib/libbusbw_profiler.so is missing"),
        (f"{SCRIPTS}/hypercube_perf", "the program hypercube_perf is missing"),
        (f"{SCRIPTS}/busbw-engine", "the program busbw-engine is missing"),
        ("busbw/fastpath/tables/sm_90.txt", "the tables of the fast path are missing"),
        (f"{SHARE}/man/man1/busbw.1", "share/man/man1/busbw.1 is missing"),
        (f"{SHARE}/zsh/site-functions/_busbw", "share/zsh/site-functions/_busbw is missing"),
    ],
)
def test_a_missing_file_is_named(tmp_path: Path, missing: str, message: str) -> None:
    code, stderr = checked(tmp_path, {name: size for name, size in WHOLE.items() if name != missing})
    assert code == 1
    assert message in stderr


def test_a_library_among_the_programs_and_one_that_grew_are_refused(tmp_path: Path) -> None:
    code, stderr = checked(tmp_path, WHOLE | {f"{SCRIPTS}/libbusbw_nccl.so": 1})
    assert (code, "libbusbw_nccl.so belongs in busbw/lib" in stderr) == (1, True)
    code, stderr = checked(tmp_path, WHOLE | {f"{SCRIPTS}/busbw-engine": 12_000_001})
    assert (code, "busbw-engine has 12000001 bytes, more than 12000000" in stderr) == (1, True)


def test_a_wheel_without_gpu_support_needs_no_fast_path_library(tmp_path: Path) -> None:
    files = {name: size for name, size in WHOLE.items() if name != "busbw/lib/libbusbw_nccl.so"}
    assert checked(tmp_path, files, "0cpu") == (0, "busbw-engine: 100 bytes\nlibbusbw_profiler.so: 100 bytes\n")
