"""Finds the engine's programs, and asks them about themselves; `launchers/` runs them. No bindings."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from busbw.errors import BusbwError, UsageError

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "sendrecv",
    "hypercube",
)
"""What the engine measures; the program of each is its name + `_perf`."""

PROGRAMS_VARIABLE = "BUSBW_PROGRAMS"
"""Names a folder whose programs are used instead of the installed ones, such as build/dev of a source tree."""

ENGINE = "busbw-engine"

FASTPATH_LIBRARY = "libbusbw_nccl.so"
"""The fast path (docs/fastpath.md)."""

_PRELOAD = "LD_PRELOAD"
_NAMED = "BUSBW_NCCL_LIBRARY"
_REAL = "BUSBW_FASTPATH_NCCL"
"""The NCCL that the fast path hands calls over to."""


def _folders() -> Iterator[Path]:
    if named := os.environ.get(PROGRAMS_VARIABLE):
        yield Path(named).absolute()
        return
    try:
        files = distribution("busbw").files or []
        # Where this very package was installed to, also with --user, --prefix or --target.
        yield from (Path(str(file.locate())).resolve().parent for file in files if file.name == ENGINE)
    except PackageNotFoundError:
        pass
    yield Path(sys.executable).parent
    yield Path(sysconfig.get_path("scripts"))


def program(name: str) -> Path:
    """The path of one of the engine's programs.

    Raises:
        BusbwError: It is not there; says where it was looked for.
    """
    folders = list(dict.fromkeys(_folders()))
    for folder in folders:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    places = " or ".join(str(folder) for folder in folders)
    remedy = f"correct {PROGRAMS_VARIABLE}" if PROGRAMS_VARIABLE in os.environ else "install busbw again"
    raise BusbwError(f"the program {name} is not in {places}", remedy=remedy)


def library(name: str) -> Path | None:
    """The path of a shared library that came with the engine; None where there is none of that name.

    A build tree has it beside the programs, a wheel in a folder of the package.
    """
    folders = [*_folders()] if PROGRAMS_VARIABLE in os.environ else [Path(__file__).parent / "lib", *_folders()]
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def preload(option: str, names: Sequence[str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that have libraries loaded before all others, and what is preloaded anyway after them.

    Args:
        option: The option that names them, for complaints: '--preload'.
        names: Paths, or bare names of libraries that came with the engine.
        own: Variables that are set besides those of this process.

    Raises:
        UsageError: There is no such library; the dynamic linker would say so and go on without it.
    """
    environment = {**os.environ, **(extra or {})}
    paths = [_named_library(option, name) for name in names]
    variables = {_PRELOAD: ":".join(filter(None, [*paths, environment.get(_PRELOAD)]))}
    fast = next((path for path in paths if Path(path).name == FASTPATH_LIBRARY), None)
    if fast and (named := environment.get(_NAMED)):
        # The engine would measure the one that is named, and not what stands before it.
        variables |= {_NAMED: fast, _REAL: environment.get(_REAL) or named}
    return variables


def _named_library(option: str, text: str) -> str:
    if Path(text).is_file():
        return str(Path(text).absolute())
    if Path(text).name == text and (found := library(text)):
        return str(found)
    raise UsageError(
        f"{option}: there is no library {text}",
        remedy="give the path of a shared library, or the name of one that came with the engine",
    )


def versions() -> str:
    """The engine's own words on its version, its backends' and the record schema's, a line each."""
    return _query_engine("--version")


def default_ranks() -> int:
    """How many ranks to measure where the user does not say: every GPU here, or 4 on the host."""
    return gpu_count() or 4


def gpu_count() -> int:
    """How many GPUs the engine would measure on this machine; 0 means that it would measure on the host."""
    return len(devices())


def devices() -> list[str]:
    """The GPUs that the engine would measure on this machine: index, bus id and name of each."""
    return _query_engine("--list-devices").splitlines()


def _query_engine(flag: str) -> str:
    """What the engine prints when asked for something about itself."""
    path = program(ENGINE)
    try:
        done = subprocess.run([path, flag], capture_output=True, text=True, errors="replace", timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BusbwError(f"{path} {flag} failed: {error}", remedy="install busbw again") from error
    return done.stdout.strip()


def collective_of(name: str) -> str:
    """The collective that a user named, with or without `_perf`; empty when there is none of that name."""
    bare = collective_name(name)
    return bare if bare in COLLECTIVES else ""


def collective_name(program: str) -> str:
    """What a program measures, by its name; that of a collective itself stays."""
    return program.removesuffix("_perf")


__all__ = [
    "COLLECTIVES",
    "ENGINE",
    "FASTPATH_LIBRARY",
    "PROGRAMS_VARIABLE",
    "collective_name",
    "collective_of",
    "default_ranks",
    "devices",
    "gpu_count",
    "library",
    "preload",
    "program",
    "versions",
]
