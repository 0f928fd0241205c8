"""Exit codes: one list for the command and the engine, shown in their help."""

import re
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.errors import EXIT_CODE_MEANINGS, EXIT_CODES_TEXT, ExitCode

ROOT = Path(__file__).resolve().parents[2]


def test_the_engine_has_the_same_exit_codes() -> None:
    codes = dict(re.findall(r"^  (\w+) = (\d+),", (ROOT / "common/support/error.hpp").read_text(), re.MULTILINE))
    meanings = (ROOT / "common/support/exit_code_meanings.hpp").read_text()
    pairs = re.findall(r'ExitCodeMeaning\{ExitCode::(\w+), "([^"]+)"\}', meanings)
    assert {int(codes[name]): meaning for name, meaning in pairs} == EXIT_CODE_MEANINGS
    assert len(pairs) == len(codes)


def test_every_exit_code_has_a_meaning() -> None:
    assert set(ExitCode) <= EXIT_CODE_MEANINGS.keys()


@pytest.mark.parametrize("words", [[], ["run"], ["launch"]])
def test_help_lists_the_exit_codes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    assert EXIT_CODES_TEXT in " ".join(capsys.readouterr().out.split())


def test_the_page_of_exit_codes_has_each_code_with_its_meaning() -> None:
    section = (ROOT / "docs/reference/exit-codes.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| ([^:;|]+?)(?:[:;][^|]*)? \|", section, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == EXIT_CODE_MEANINGS
