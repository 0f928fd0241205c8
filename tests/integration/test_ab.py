"""`busbw ab` with the installed programs: a library is preloaded on one side, and on that side only."""

import json
import subprocess
from pathlib import Path

import pytest

from busbw.cli.main import main

from .programs import Programs

# Says in a file, by a line for each, into which programs it was loaded, and changes nothing.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void say(void) {
  char name[64] = "?";
  FILE* own = fopen("/proc/self/comm", "r");
  if (own) { (void)!fgets(name, sizeof name, own); fclose(own); }
  FILE* file = fopen(getenv("LOADED_INTO"), "a");
  if (file) { fputs(name, file); fclose(file); }
}
"""


def test_a_preloaded_library_is_on_its_side_and_beside_the_engine(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    for name in ("busbw-engine", "all_reduce_perf"):
        (beside / name).symlink_to(programs.path(name))
    library = beside / "libharmless.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(library)], input=SOURCE, text=True, check=True)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(beside))
    monkeypatch.setenv("LOADED_INTO", str(tmp_path / "loaded"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.chdir(programs.folder)
    arguments = ["ab", "all_reduce", "-t", "2", "-d", "half", "-b", "1K", "-e", "4K", "-n", "4", "-w", "1"]
    code = main(
        [*arguments, "--max-quadruples", "12", "--records-folder", "run", "--a", "", "--b", "--preload libharmless.so"]
    )
    said = capsys.readouterr()
    assert code == 0, said.err
    assert [line.split() for line in said.out.splitlines() if "speed-up" in line] == [
        ["size", "A", "median", "us", "B", "median", "us", "speed-up", "interval", "verdict"]
    ] * 2
    assert "A  nothing changed" in said.out
    assert "B  --preload libharmless.so" in said.out
    results = json.loads((programs.folder / "run" / "comparison.json").read_text())["results"]
    assert [(each["point"]["size_bytes"], each["point"]["dtype"]) for each in results] == [
        (size, "half") for _ in range(2) for size in (1024, 2048, 4096)
    ]
    assert all(each["interval"][0] <= each["speedup"] <= each["interval"][1] for each in results)
    starts = (tmp_path / "loaded").read_text().split()
    measured = [name for name in starts if name.startswith(("all_reduce", "busbw-engine"))]
    # A proof and two of each quadruple's four blocks; an installed name starts the engine, and then it is loaded twice.
    assert len(measured) in (25, 50)
    assert "python" not in " ".join(starts)
