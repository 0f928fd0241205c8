"""The comparison of tables, JSON and flags with nccl-tests, with busbw's own programs on both sides."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw import engine

ROOT = Path(__file__).parents[3]

FAKE = """#!/bin/sh
# The program of busbw, with changes that the comparison must find.
"{program}" "$@" | sed {edit}
while [ "$#" -gt 1 ]; do
    if [ "$1" = -J ]; then sed -i {edit} "$2"; fi
    shift
done
"""


def compare(folder: Path, nccl_tests: Path, *flags: str) -> tuple[int, str]:
    """Runs the script on the host backend. Returns its exit code and its page."""
    programs = engine.program("all_reduce_perf").parent
    done = subprocess.run(
        [
            *map(str, (sys.executable, ROOT / "bench" / "gpu_compatibility.py", "--programs", programs)),
            *map(str, ("--nccl-tests", nccl_tests, "--ranks", "-t 2 --backend host", "--results", folder / "page")),
            *("--parts", "flags,collectives"),
            *flags,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "BUSBW_LAUNCHER": "none"},
    )
    assert (folder / "page.md").exists(), done.stderr
    return done.returncode, (folder / "page.md").read_text()


def fake_programs(folder: Path, edit: str) -> Path:
    """Makes an all_reduce_perf_mpi with output and JSON file edited by sed."""
    fake = folder / "all_reduce_perf_mpi"
    fake.write_text(FAKE.format(program=engine.program("all_reduce_perf"), edit=edit))
    fake.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", ["init", "split", "shrink", "grow"])
def test_each_test_of_comm_ops_is_compared(tmp_path: Path, name: str) -> None:
    _, page = compare(tmp_path, engine.program("all_reduce_perf").parent, "--parts", "comm_ops")
    assert f"comm_ops_perf {name}`" in page


def test_equal_programs_are_equal(tmp_path: Path) -> None:
    code, page = compare(
        tmp_path, engine.program("all_reduce_perf").parent, "--collectives", "all_reduce,hypercube,broadcast"
    )
    assert code == 0, page
    for name in ("flags of all_reduce_perf", "table of hypercube_perf", "JSON of broadcast_perf"):
        assert f"| `{name}` | equal |" in page


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("'s/-M, --memory/-M, --memory_use/'", "| `flags of all_reduce_perf` | different: -M, --memory_use |"),
        ("'s/ redop / operator /'", "| `table of all_reduce_perf` | different: the lines that name the columns |"),
        ("'s/ float / half /'", "different: row `1024 256 half sum -1 0 0` against `1024 256 float sum -1 0 0`"),
        ("'s/alg_bw/algo_bw/g'", "different: results[].in_place.algo_bw, results[].out_of_place.algo_bw; only busbw"),
        ("/^#/p", "| `table of all_reduce_perf` | different: the lines that name the columns |"),
    ],
)
def test_differences_are_found(tmp_path: Path, edit: str, expected: str) -> None:
    programs = fake_programs(tmp_path, edit)
    code, page = compare(tmp_path, programs, "--suffix", "_mpi", "--collectives", "all_reduce")
    assert code == 1
    assert expected in page


def test_a_program_that_fails_is_no_result(tmp_path: Path) -> None:
    fake = tmp_path / "all_reduce_perf"
    fake.write_text("#!/bin/sh\necho '[-t,--nthreads <num threads>]'\necho no GPU >&2\nexit 3\n")
    fake.chmod(0o755)
    code, page = compare(tmp_path, tmp_path, "--collectives", "all_reduce")
    assert code == 1
    assert "not compared: nccl-tests: exit code 3: no GPU" in page


def test_keys_below_a_missing_key_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from gpu_compatibility import compare_documents

    theirs = json.loads('{"a": 1, "list": [{"x": {"y": 1}}, {"x": {"z": [1, 2]}}], "errors": [""]}')
    ours = json.loads('{"a": 2, "list": [{}], "errors": [], "busbw": {"version": 1}}')
    comparison = compare_documents("it", theirs, ours)
    assert (comparison.missing, comparison.additional) == (["list[].x"], ["busbw"])
