"""The sources keep to the project's language: tools/lint_language.py with the rules of tools/language.toml."""

import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import lint_language  # noqa: E402

RULES = msgspec.toml.decode((ROOT / "tools" / "language.toml").read_bytes())["rule"]


def test_every_source_file_keeps_the_rules() -> None:
    assert lint_language.all_violations() == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.py", '"""What a command printed."""'),
        ("a.py", "# Whether it is open."),
        ("a.cpp", "/// Who came first."),
        ("a.hpp", "int room = 0;  // the rank " + "whose buffer it is"),
        ("a.hpp", "struct " + "Told {};"),
        ("a.cu", "constexpr int k" + "MostRanks = 8;"),
        ("a.py", "MOST" + "_ROWS = 3"),
        ("a.sh", "# What is left"),
    ],
)
def test_a_forbidden_line_is_found(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.write_text(f"{line}\n")
    assert len(lint_language.violations(path, RULES)) == 1


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.py", '"""Output of a command."""'),
        ("a.py", "# True if it is open."),
        ("a.cpp", "/// The first rank that joined."),
        ("a.hpp", "struct BatchTimes {};"),
        ("a.py", 'text = "What is this? https://host//path"'),
    ],
)
def test_a_plain_line_passes(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.write_text(f"{line}\n")
    assert lint_language.violations(path, RULES) == []
