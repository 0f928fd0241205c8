#!/usr/bin/env python3
"""Checks comments, docstrings, messages and names against tools/language.toml; prints each violation and exits 1."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
# A comment begins after a blank, so that "//" in a URL or "#" in a string without a blank is code.
COMMENT = {
    ".py": re.compile(r'(?:(?:^|\s)#\s|^\s*[rf]?""")\s*(.*)'),
    ".cpp": re.compile(r"(?:^|\s)//[/!]?<?\s*(.*)"),
    ".sh": re.compile(r"(?:^|\s)#\s(.*)"),
}
KINDS = {".hpp": ".cpp", ".cu": ".cpp", ".cuh": ".cpp", ".c": ".cpp", ".cmake": ".sh", ".txt": ".sh"}


def violations(path: Path, rules: list[dict[str, str]]) -> list[str]:
    """Returns `path:line: text: reason` for every line that breaks a rule."""
    comment = COMMENT[KINDS.get(path.suffix, path.suffix)]
    found = []
    previous_is_comment = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = comment.search(line)
        begins = match is not None and not previous_is_comment
        previous_is_comment = match is not None and not line[: match.start()].strip()
        for rule in rules:
            scope = {"name": line, "comment": match[1] if match else "", "start": match[1] if match and begins else ""}
            hit = re.search(rule["pattern"], scope[rule["scope"]])
            if hit and not re.search(rule.get("except", r"(?!)"), line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {hit[0].strip()}: {rule['reason']}")
    return found


def main() -> int:
    """Checks every tracked source file."""
    rules = msgspec.toml.decode((ROOT / "tools" / "language.toml").read_bytes())["rule"]
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    suffixes = {*COMMENT, *KINDS} - {".txt"}
    paths = [ROOT / name for name in files if Path(name).suffix in suffixes or name.endswith("CMakeLists.txt")]
    found = [line for path in paths for line in violations(path, rules)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
