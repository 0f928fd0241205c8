#!/usr/bin/env python3
"""Checks comments, docstrings, messages and names against tools/language.toml; prints each violation and exits 1."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
# A comment begins after a blank, so that "//" in a URL or "#" in a string without a blank is code.
HASH = re.compile(r'(?:(?:^|\s)#\s|^\s*[rf]?""")\s*(.*)')
SLASHES = re.compile(r"(?:^|\s)//[/!]?<?\s*(.*)")
COMMENT = dict.fromkeys((".py", ".sh", ".cmake", ".txt"), HASH) | dict.fromkeys(
    (".cpp", ".hpp", ".cu", ".cuh", ".c"), SLASHES
)


def violations(path: Path, rules: list[dict[str, str]]) -> list[str]:
    """Returns `path:line: text: reason` for every line that breaks a rule."""
    found = []
    previous_is_comment = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = COMMENT[path.suffix].search(line)
        begins = match is not None and not previous_is_comment
        previous_is_comment = match is not None and not line[: match.start()].strip()
        scopes = {"name": line, "comment": match[1] if match else "", "start": match[1] if match and begins else ""}
        for rule in rules:
            hit = re.search(rule["pattern"], scopes[rule["scope"]])
            if hit and not re.search(rule.get("except", r"(?!)"), line):
                found.append(f"{path}:{number}: {hit[0].strip()}: {rule['reason']}")
    return found


def all_violations() -> list[str]:
    """Returns the violations of every tracked source file."""
    rules = msgspec.toml.decode((ROOT / "tools" / "language.toml").read_bytes())["rule"]
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    sources = [Path(name) for name in names if Path(name).suffix in COMMENT]
    checked = [ROOT / path for path in sources if path.suffix != ".txt" or path.name == "CMakeLists.txt"]
    return [line for path in checked for line in violations(path, rules)]


if __name__ == "__main__":
    sys.exit("\n".join(all_violations()) or 0)
