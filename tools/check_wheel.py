#!/usr/bin/env python3
"""Says what a wheel with the GPU engine holds, and refuses one that lacks something or has grown too large.

Usage: tools/check_wheel.py WHEEL
"""

import re
import sys
import zipfile
from pathlib import Path

MAX_BYTES = {"busbw-engine": 12_000_000, "libbusbw_nccl.so": 24_000_000}
"""Unpacked. The library holds a kernel for each method, type and operator, for every kind of GPU."""
LIBRARY = "busbw/lib/libbusbw_nccl.so"
"""Beside the package and not among the programs, whose folder is no place for a library."""
PROGRAMS = re.compile(r"busbw-[^/]+\.data/scripts/([^/]+)")


def complaints(wheel: Path) -> list[str]:
    """A sentence for each thing that is not as it should be."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist()}
    programs = {match[1]: name for name in sizes if (match := PROGRAMS.fullmatch(name))}
    collectives = Path(__file__).parents[1].joinpath("engine/collectives/registry.cpp").read_text()
    needed = ["busbw-engine", *(f"{name}_perf" for name in re.findall(r'{"([a-z_]+)", make_', collectives))]
    found = [f"it lacks the program {name}" for name in needed if name not in programs]
    if LIBRARY not in sizes:
        found.append(f"it lacks {LIBRARY}")
    tables = [name for name in sizes if re.fullmatch(r"busbw/fastpath/tables/sm_\d+\.txt", name)]
    if not tables:
        found.append("it lacks the tables of the fast path")
    found += [f"{name} belongs in busbw/lib" for name in programs if ".so" in name]
    for what, name in (("busbw-engine", programs.get("busbw-engine", "")), ("libbusbw_nccl.so", LIBRARY)):
        if (size := sizes.get(name, 0)) > MAX_BYTES[what]:
            found.append(f"{what} has {size} bytes, more than {MAX_BYTES[what]}")
        elif size:
            print(f"{what}: {size} bytes", file=sys.stderr)
    return found


def main() -> int:
    """Looks at the wheel that is named."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = complaints(Path(sys.argv[1]))
    for sentence in found:
        print(f"{sys.argv[1]}: {sentence}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
