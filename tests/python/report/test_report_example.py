"""docs/examples/ shows what the program makes today."""

import re
import shlex
from itertools import zip_longest
from pathlib import Path

import pytest
from conftest import ROOT
from report_pages import Parsed

from busbw.cli.main import main

EXAMPLE = ROOT / "docs" / "examples" / "seeds.html"
SCRIPT = ROOT / "tools" / "examples.sh"


def arguments(output: Path) -> list[str]:
    """Arguments that the script gives to the command."""
    text = SCRIPT.read_text().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.startswith('"$busbw" report'))
    words = shlex.split(line)[1:]
    return [str(output) if word == "$out.html" else word for word in words]


def tokens(html: str) -> list[str]:
    """Splits text into figures and the text between them. The version of busbw is masked."""
    html = re.sub(r"busbw (?:[\d.]+\w*|not installed)(?=[\".])", "busbw X", html)
    return re.split(r"(\d+(?:\.\d+)?)", html)


def same(one: str, other: str) -> bool:
    """A last digit may come out otherwise with another version of a library."""
    if one == other:
        return True
    try:
        return float(one) == pytest.approx(float(other), rel=2e-3, abs=0.11)
    except ValueError:
        return False


def test_the_report_of_the_seeds_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = tmp_path / "seeds.html"
    assert main(arguments(made)) == 0
    pairs = zip_longest(tokens(EXAMPLE.read_text()), tokens(made.read_text()), fillvalue="")
    different = [pair for pair in pairs if not same(*pair)]
    assert different[:3] == [], "run tools/examples.sh, look at the result, and commit it"


def test_every_row_of_the_seeds_is_in_it() -> None:
    words = Parsed(EXAMPLE.read_text()).words
    for rows in (160, 84, 68, 87):
        assert f"{rows} of {rows} rows read, 0 lines refused" in words
    assert EXAMPLE.stat().st_size < 2_000_000
    assert (EXAMPLE.parent / "seeds.png").stat().st_size < 300_000
