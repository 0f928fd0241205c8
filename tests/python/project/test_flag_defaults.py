"""The help texts of the engine's flags state the defaults that the code reads."""

import re
from pathlib import Path

OPTIONS = Path(__file__).resolve().parents[3] / "engine" / "options"
STATED_DEFAULT = re.compile(r'"(--[\w-]+)",\s*"[^"]*",\s*((?:"(?:[^"\\]|\\.)*"\s*)+),')
USED_DEFAULT = re.compile(r'flags\.(?:integer|text)\("(--[\w-]+)", "?(\w[\w-]*)"?[,)]')
DECIDED_LATER = {"--timeout", "--device_cta_count"}
"""Flags with a default that depends on other flags, or is a named constant."""


def test_help_texts_state_the_defaults_in_the_code() -> None:
    helps = dict(STATED_DEFAULT.findall((OPTIONS / "flag_table.cpp").read_text()))
    code = "".join(path.read_text() for path in sorted(OPTIONS.glob("*.cpp")))
    used = {flag: value for flag, value in USED_DEFAULT.findall(code) if flag not in DECIDED_LATER}
    stated = {flag: re.search(r"\(default ([\w-]+)", text) for flag, text in helps.items()}
    differing = {flag: value for flag, value in used.items() if (match := stated[flag]) and match[1] != value}
    compared = [flag for flag in used if stated[flag]]
    assert differing == {}
    assert len(compared) >= 20, compared
