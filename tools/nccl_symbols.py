#!/usr/bin/env python3
"""Writes fastpath/forward/symbols.txt: every function that NCCL exports, and the first version that has it.

Usage: tools/nccl_symbols.py 2.18.3 2.19.3 ...

The versions are those of the wheel nvidia-nccl-cu12 on PyPI. pip fetches them one after another (about 200 MB each).
The list keeps its entries, so only new versions need to be named. Symbols that are not functions are printed on
stderr, because the fast path forwards only functions (fastpath/forward).
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIST_FILE = Path(__file__).resolve().parents[1] / "fastpath" / "forward" / "symbols.txt"
LIST_HEADER = """\
# Every function that NCCL exports, and the first version in which it was seen; written by tools/nccl_symbols.py.
# Looked at: {versions}
"""
LINKER_SYMBOLS = {"__bss_start", "_edata", "_end"}
"""Symbols that the linker adds to a library."""


def version_key(version: str) -> tuple[int, ...]:
    """Returns a sort key that puts 2.9 before 2.18."""
    return tuple(int(part) for part in version.split("."))


def read_exports(version: str) -> tuple[set[str], set[str]]:
    """Returns the functions and the other symbols that NCCL's library in the wheel of a version exports."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        subprocess.run([*pip, "--no-deps", "--dest", folder, f"nvidia-nccl-cu12=={version}"], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            library = archive.extract("nvidia/nccl/lib/libnccl.so.2", folder)
        listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    functions: set[str] = set()
    other_symbols: set[str] = set()
    for line in listed.stdout.splitlines():
        symbol_type, name_and_version = line.split()[-2:]
        name = name_and_version.partition("@")[0]
        is_function = symbol_type in "TWi"  # in the text section, weak, or indirect
        if is_function:
            functions.add(name)
        else:
            other_symbols.add(name)
    return functions, other_symbols - LINKER_SYMBOLS


def read_list() -> tuple[list[str], dict[str, str]]:
    """Returns the versions that the list covers, and for each function the first version that has it."""
    versions: list[str] = []
    first_versions: dict[str, str] = {}
    text = LIST_FILE.read_text() if LIST_FILE.exists() else ""
    for line in text.splitlines():
        if line.startswith("# Looked at: "):
            versions = line.removeprefix("# Looked at: ").split()
        elif not line.startswith("#"):
            name, version = line.split()
            first_versions[name] = version
    return versions, first_versions


def main(new_versions: list[str]) -> None:
    """Adds the functions of new versions to the list."""
    versions, first_versions = read_list()
    for version in new_versions:
        functions, other_symbols = read_exports(version)
        print(f"{version}: {len(functions)} functions", *sorted(other_symbols), file=sys.stderr)
        for name in functions:
            first_versions[name] = min(first_versions.get(name, version), version, key=version_key)
    all_versions = sorted({*versions, *new_versions}, key=version_key)
    header = LIST_HEADER.format(versions=" ".join(all_versions))
    LIST_FILE.write_text(header + "".join(f"{name} {version}\n" for name, version in sorted(first_versions.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
