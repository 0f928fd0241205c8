"""Man pages of busbw: generated from the options of today."""

import sys

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
