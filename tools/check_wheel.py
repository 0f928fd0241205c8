#!/usr/bin/env python3
"""Checks a wheel: prints the sizes of its binaries, and fails for missing or too large files.

The build tag 0cpu marks a wheel without GPU support: it has no fast-path library.

Usage: tools/check_wheel.py WHEEL      (tools/wheel.sh calls it)
"""

import re
import sys
import zipfile
from pathlib import Path

FASTPATH_LIBRARY, PROFILER_LIBRARY = "busbw/lib/libbusbw_nccl.so", "busbw/lib/libbusbw_profiler.so"
"""Paths of the libraries in the wheel. They must not be in the folder of programs."""
MAX_ENGINE_BYTES = 12_000_000
MAX_LIBRARY_BYTES = {FASTPATH_LIBRARY: 24_000_000, PROFILER_LIBRARY: 2_000_000}
"""Maximum unpacked sizes. The fast path has a kernel for each method, type and operator, for every type of GPU."""
COLLECTIVES = Path(__file__).parents[1] / "src/busbw/collectives.toml"
PROGRAMS = re.compile(r"busbw-[^/]+\.data/scripts/([^/]+)")
SHARED_FILE = re.compile(r"busbw-[^/]+\.data/data/(share/.+)")
SHARED_FILES = (
    "share/man/man1/busbw.1",
    "share/man/man1/all_reduce_perf.1",
    "share/bash-completion/completions/busbw",
    "share/fish/vendor_completions.d/busbw.fish",
    "share/zsh/site-functions/_busbw",
)
"""Man pages and completions that stand for all of their kind."""


def find_problems(wheel: Path) -> list[str]:
    """Returns one message per problem of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    path_by_program = {match[1]: name for name in sizes if (match := PROGRAMS.fullmatch(name))}
    collectives = re.findall(r'^name = "(\w+)"', COLLECTIVES.read_text(), re.MULTILINE)
    required_programs = ["busbw-engine", *(f"{name}_perf" for name in [*collectives, "comm_ops"])]
    problems = [f"the program {name} is missing" for name in required_programs if name not in path_by_program]
    if "-0cpu-" not in wheel.name and FASTPATH_LIBRARY not in sizes:
        problems.append(f"{FASTPATH_LIBRARY} is missing")
    if PROFILER_LIBRARY not in sizes:
        problems.append(f"{PROFILER_LIBRARY} is missing")
    shared_files = {match[1] for name in sizes if (match := SHARED_FILE.fullmatch(name))}
    problems += [f"{file} is missing" for file in SHARED_FILES if file not in shared_files]
    tables = [name for name in sizes if re.fullmatch(r"busbw/fastpath/tables/sm_\d+\.txt", name)]
    if not tables:
        problems.append("the tables of the fast path are missing")
    problems += [f"{name} belongs in busbw/lib" for name in path_by_program if ".so" in name]
    max_bytes = {path_by_program.get("busbw-engine", ""): MAX_ENGINE_BYTES} | MAX_LIBRARY_BYTES
    for path, limit in max_bytes.items():
        file, size = Path(path).name, sizes.get(path, 0)
        if size > limit:
            problems.append(f"{file} has {size} bytes, more than {limit}")
        elif size:
            print(f"{file}: {size} bytes", file=sys.stderr)
    return problems


def main() -> int:
    """Checks the wheel named on the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    problems = find_problems(Path(sys.argv[1]))
    for problem in problems:
        print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
