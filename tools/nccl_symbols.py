#!/usr/bin/env python3
"""Writes fastpath/forward/symbols.txt: every function that NCCL exports, and the first version that has it.

Usage: tools/nccl_symbols.py 2.18.3 2.19.3 ...

The versions are those of the wheel nvidia-nccl-cu12 on PyPI. pip fetches them one after another (about 200 MB each).
The list keeps its entries, so only new versions need to be named. Symbols that are not functions are printed on
stderr, because no trampoline can replace them.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "fastpath" / "forward" / "symbols.txt"
HEAD = """\
# Every function that NCCL exports, and the first version in which it was seen; written by tools/nccl_symbols.py.
# Looked at: {versions}
"""
LINKER_SYMBOLS = {"__bss_start", "_edata", "_end"}


def version_key(version: str) -> tuple[int, ...]:
    """Returns a sort key that puts 2.9 before 2.18."""
    return tuple(int(part) for part in version.split("."))


def exports(version: str) -> tuple[set[str], set[str]]:
    """Returns the functions and the other symbols that the wheel's library exports."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        subprocess.run([*pip, "--no-deps", "--dest", folder, f"nvidia-nccl-cu12=={version}"], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            library = archive.extract("nvidia/nccl/lib/libnccl.so.2", folder)
        listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    functions: set[str] = set()
    others: set[str] = set()
    for line in listed.stdout.splitlines():
        kind, name = line.split()[-2:]
        (functions if kind in "TWi" else others).add(name.partition("@")[0])
    return functions, others - LINKER_SYMBOLS


def read_list() -> tuple[list[str], dict[str, str]]:
    """Returns the versions in the list, and the first version of each name."""
    versions: list[str] = []
    first: dict[str, str] = {}
    for line in LIST.read_text().splitlines() if LIST.exists() else []:
        if line.startswith("# Looked at: "):
            versions = line.split()[3:]
        elif not line.startswith("#"):
            name, version = line.split()
            first[name] = version
    return versions, first


def main(new_versions: list[str]) -> None:
    """Adds the given versions and writes the list."""
    versions, first = read_list()
    for version in new_versions:
        functions, others = exports(version)
        print(f"{version}: {len(functions)} functions", *sorted(others), file=sys.stderr)
        for name in functions:
            first[name] = min(first.get(name, version), version, key=version_key)
    head = HEAD.format(versions=" ".join(sorted({*versions, *new_versions}, key=version_key)))
    LIST.write_text(head + "".join(f"{name} {first[name]}\n" for name in sorted(first)))


if __name__ == "__main__":
    main(sys.argv[1:])
