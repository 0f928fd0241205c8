#!/usr/bin/env python3
"""Checks all tracked source files against the rules in tools/language.toml; exits 1 if one breaks a rule."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
# A comment starts after a blank, so that "//" in a URL and "#" within a word count as code.
HASH_COMMENT = re.compile(r'(?:(?:^|\s)#\s|^\s*[rf]?""")\s*(.*)')
SLASH_COMMENT = re.compile(r"(?:^|\s)//[/!]?<?\s*(.*)")
COMMENT_BY_SUFFIX = {
    **dict.fromkeys((".py", ".sh", ".cmake", ".txt"), HASH_COMMENT),
    **dict.fromkeys((".cpp", ".hpp", ".cu", ".cuh", ".c"), SLASH_COMMENT),
}


def violations(path: Path, rules: list[dict[str, str]]) -> list[str]:
    """Returns `path:line: text: reason` for each rule that a line breaks.

    The scope of a rule selects the text to search: "name" is the whole line, and "comment" is the comment in the line.
    "start" is also the comment, but only in the first line of a block of comments.
    """
    messages = []
    previous_is_comment = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = COMMENT_BY_SUFFIX[path.suffix].search(line)
        comment = match[1] if match else ""
        text_by_scope = {"name": line, "comment": comment, "start": "" if previous_is_comment else comment}
        previous_is_comment = match is not None and not line[: match.start()].strip()
        for rule in rules:
            hit = re.search(rule["pattern"], text_by_scope[rule["scope"]])
            is_excepted = "except" in rule and re.search(rule["except"], line)
            if hit and not is_excepted:
                messages.append(f"{path}:{number}: {hit[0].strip()}: {rule['reason']}")
    return messages


def all_violations() -> list[str]:
    """Returns the violations of every tracked source file."""
    rules = msgspec.toml.decode((ROOT / "tools" / "language.toml").read_bytes())["rule"]
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    sources = [ROOT / name for name in names if Path(name).suffix in COMMENT_BY_SUFFIX]
    checked = [path for path in sources if path.suffix != ".txt" or path.name == "CMakeLists.txt"]
    return [message for path in checked for message in violations(path, rules)]


if __name__ == "__main__":
    sys.exit("\n".join(all_violations()) or 0)
