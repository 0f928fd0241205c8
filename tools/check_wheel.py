#!/usr/bin/env python3
"""Checks a wheel with the GPU engine: prints the sizes, and fails for missing or too large files.

Usage: tools/check_wheel.py WHEEL
"""

import re
import sys
import zipfile
from pathlib import Path

MAX_BYTES = {"busbw-engine": 12_000_000, "libbusbw_nccl.so": 24_000_000}
"""Maximum unpacked sizes. The library has a kernel for each method, type and operator, for every type of GPU."""
LIBRARY = "busbw/lib/libbusbw_nccl.so"
"""Path of the library inside the package, because the folder of programs is not for libraries."""
PROGRAMS = re.compile(r"busbw-[^/]+\.data/scripts/([^/]+)")


def problems(wheel: Path) -> list[str]:
    """Returns one message per problem of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist()}
    programs = {match[1]: name for name in sizes if (match := PROGRAMS.fullmatch(name))}
    collectives = Path(__file__).parents[1].joinpath("engine/collectives/registry.cpp").read_text()
    needed = ["busbw-engine", *(f"{name}_perf" for name in re.findall(r'{"([a-z_]+)", make_', collectives))]
    found = [f"the program {name} is missing" for name in needed if name not in programs]
    if LIBRARY not in sizes:
        found.append(f"{LIBRARY} is missing")
    tables = [name for name in sizes if re.fullmatch(r"busbw/fastpath/tables/sm_\d+\.txt", name)]
    if not tables:
        found.append("the tables of the fast path are missing")
    found += [f"{name} belongs in busbw/lib" for name in programs if ".so" in name]
    for file, name in (("busbw-engine", programs.get("busbw-engine", "")), ("libbusbw_nccl.so", LIBRARY)):
        if (size := sizes.get(name, 0)) > MAX_BYTES[file]:
            found.append(f"{file} has {size} bytes, more than {MAX_BYTES[file]}")
        elif size:
            print(f"{file}: {size} bytes", file=sys.stderr)
    return found


def main() -> int:
    """Checks the wheel named on the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = problems(Path(sys.argv[1]))
    for sentence in found:
        print(f"{sys.argv[1]}: {sentence}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
