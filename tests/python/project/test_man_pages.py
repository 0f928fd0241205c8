"""Man pages of busbw: generated from the options of today."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from busbw.cli.main import COMMANDS

sys.path.insert(0, str(ROOT / "tools"))

from man_pages import FOLDER, command_pages


def test_the_pages_are_those_of_the_options() -> None:
    generated = command_pages()
    assert set(generated) == {"busbw.1", *(f"busbw-{name}.1" for name in COMMANDS)}
    for name, text in generated.items():
        assert (FOLDER / name).read_text() == text, f"{name}: run tools/man_pages.py"
    assert {path.name for path in FOLDER.iterdir()} == {*generated, "busbw-engine.1"}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("busbw-check.1", "\\fB\\-\\-sharp\\fR"),
        ("busbw-launch.1", '.SH "BUSBW LAUNCH SLURM"'),
        ("busbw-launch.1", "\\fB\\-\\-submit\\-with [auto|sbatch|srun]\\fR"),
        ("busbw-fastpath.1", '.SH "BUSBW FASTPATH TUNE"'),
        ("busbw.1", "5 slower than demanded"),
    ],
)
def test_a_page_has_options_commands_and_notes(page: str, text: str) -> None:
    assert text in (FOLDER / page).read_text()


def test_hidden_options_are_left_out() -> None:
    assert "\\-\\-systems" not in (FOLDER / "busbw-expect.1").read_text()


@pytest.mark.parametrize("tool", ["man_pages.py", "docs_site.py"])
def test_without_an_engine_a_message_says_so_and_the_pages_stay(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "busbw.1").write_text("a page")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path / "empty"))
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert done.stderr == f"the program busbw-engine is not in {tmp_path / 'empty'}; correct BUSBW_PROGRAMS\n"
    assert (folder / "busbw.1").read_text() == "a page"
