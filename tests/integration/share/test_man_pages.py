"""Man pages of the programs: generated from the flags of today, installed, and free of markup errors."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installed import share_folder

from busbw.collectives import PROGRAMS

from ..programs import Programs

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from man_pages import FOLDER, engine_page  # noqa: E402


def test_the_page_is_that_of_the_flags(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_PROGRAMS", str(programs.installed_in))
    ((name, text),) = engine_page().items()
    assert (FOLDER / name).read_text() == text, "run tools/man_pages.py"
    for words in ("\\fB\\-d, \\-\\-datatype TYPE\\fR", "bfloat16", "\\fB\\-\\-list\\-devices\\fR", "NCCL_TESTS_SPLIT"):
        assert words in text


def test_every_command_and_program_has_an_installed_page() -> None:
    installed = {path.name for path in (share_folder() / "man" / "man1").glob("*.1")}
    programs = {f"{collective}_perf.1" for collective in PROGRAMS}
    assert {path.name for path in FOLDER.glob("*.1")} | programs <= installed


def test_the_pages_have_no_markup_errors() -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    pages = sorted(FOLDER.glob("*.1"))
    assert len(pages) > 15
    done = subprocess.run(
        ["mandoc", "-Tlint", "-W", "warning", *pages], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_of_a_program_shows_the_flags() -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    folder = share_folder() / "man"
    shown = subprocess.run(
        ["mandoc", "-Tascii", "man1/all_reduce_perf.1"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert "-d, --datatype TYPE" in re.sub(".\b", "", shown)  # bold letters are printed twice
