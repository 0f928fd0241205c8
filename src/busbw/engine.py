"""Finds the engine's programs and queries their version and devices. `launchers/` runs measurements with them."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from pathlib import Path

import busbw
from busbw.errors import BusbwError, ExitCode, UsageError

WORLD_VARIABLES = (
    "BUSBW_LAUNCHER",
    "BUSBW_RANK",
    "BUSBW_SIZE",
    "BUSBW_LOCAL_RANK",
    "BUSBW_LOCAL_SIZE",
    "BUSBW_NODE",
    "BUSBW_HOSTS",
    "BUSBW_RENDEZVOUS",
    "BUSBW_TOKEN",
    "BUSBW_TOKEN_FILE",
)
"""Variables that define a job, and the place of a process in the job. BUSBW_RANK is the number of the process.

If a launcher sets one of these variables for a process, the process inherits none of them from the environment.
"""

REQUESTED_GPUS_VARIABLE = "BUSBW_REQUESTED_GPUS"
"""Number of GPUs per node that a launcher requests. If it is set, the engine does not fall back to the host backend."""

LOST_HOSTS_VARIABLE = "BUSBW_LOST_HOSTS"
"""Hosts that a launcher left out because nothing can start there, as a JSON object: {"node7": "no route to host"}."""

NODE_NAME_VARIABLE = "BUSBW_NODENAME"
"""Kubernetes' name of the node, for `busbw doctor` and `busbw find`: the host name of a pod is that of the pod."""

PROGRAMS_VARIABLE = "BUSBW_PROGRAMS"
"""Folder of programs to use instead of the installed ones, such as build/dev of a source tree."""

ENGINE = "busbw-engine"
"""Program that measures every collective. Other programs, such as all_reduce_perf, start it under their name."""

FLOWS = "flows"
"""First argument of the engine that measures flows for a search, not a collective."""

EACH_NODE = "each-node"
"""First argument of the engine that runs a command on each node, and measures nothing."""

COMMAND_BY_TABLELESS_ARGUMENT = {FLOWS: "find", EACH_NODE: "doctor"}
"""First arguments with which the engine prints no table, each with the command of busbw that uses the argument."""

FASTPATH_LIBRARY = "libbusbw_nccl.so"
"""Fast-path library (docs/explanation/fast-path.md)."""

PROFILER_LIBRARY = "libbusbw_profiler.so"
"""Profiler plugin for NCCL, which records a job."""

_PRELOAD = "LD_PRELOAD"
_NCCL_LIBRARY = "BUSBW_NCCL_LIBRARY"
"""Path of the NCCL library that the engine loads."""
_FASTPATH_NCCL = "BUSBW_FASTPATH_NCCL"
"""NCCL library that the fast path delegates calls to."""
_QUERY_LIMIT_S = 60
"""Time limit for an informational flag of the engine, such as --list-devices. Waking GPUs takes seconds."""
_START_REMEDIES = {
    EMFILE: "raise the limit of open files (ulimit -n)",
    ENFILE: "end other programs: the machine's open file limit is reached",
    EAGAIN: "raise the process limit (ulimit -u, or the container's)",
    ENOMEM: "end other programs: the memory is exhausted",
}
"""Remedies by the error number of a failed start. None of these errors is one of the installation."""


def _program_folders() -> Iterator[Path]:
    """Yields the folders that may contain the engine's programs, in order of preference."""
    if named := os.environ.get(PROGRAMS_VARIABLE):
        yield Path(named).absolute()
        return
    # Slow to import, and many commands start no engine.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        files = distribution("busbw").files or []
        # Covers installations with --user, --prefix and --target too.
        yield from (Path(str(file.locate())).resolve().parent for file in files if file.name == ENGINE)
    except PackageNotFoundError:
        pass
    yield Path(sys.executable).parent
    yield Path(sysconfig.get_path("scripts"))


def program(name: str) -> Path:
    """Returns the path of one of the engine's programs.

    Raises:
        BusbwError: The program is not found; the message names the folders that were searched.
    """
    folders = list(dict.fromkeys(_program_folders()))
    for folder in folders:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    searched = " or ".join(str(folder) for folder in folders)
    remedy = f"correct {PROGRAMS_VARIABLE}" if PROGRAMS_VARIABLE in os.environ else "install busbw again"
    raise BusbwError(f"the program {name} is not in {searched}", remedy=remedy)


def library(name: str) -> Path | None:
    """Returns the path of a shared library that was installed with the engine. None if it is not found.

    In a build tree the library is in the programs' folder, in a wheel in the package's folder `lib`.
    """
    folders = list(_program_folders())
    if PROGRAMS_VARIABLE not in os.environ:
        folders.insert(0, Path(__file__).parent / "lib")
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def preload_variables(option: str, names: Sequence[str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment variables that preload libraries, ahead of libraries that are already preloaded.

    Args:
        option: Option that names the libraries, for messages: '--preload'.
        names: Paths, or bare names of libraries that were installed with the engine.
        extra: Variables to set in addition to those of this process.

    Raises:
        UsageError: A library does not exist. The dynamic linker would only warn and continue without it.
    """
    environment = {**os.environ, **(extra or {})}
    paths = [_find_library(option, name) for name in names]
    variables = {_PRELOAD: ":".join(filter(None, [*paths, environment.get(_PRELOAD)]))}
    fastpath = next((path for path in paths if Path(path).name == FASTPATH_LIBRARY), None)
    nccl = environment.get(_NCCL_LIBRARY)
    if fastpath and nccl:
        # Otherwise the engine would load this NCCL library directly and bypass the fast path.
        variables |= {_NCCL_LIBRARY: fastpath, _FASTPATH_NCCL: environment.get(_FASTPATH_NCCL) or nccl}
    return variables


def _find_library(option: str, name: str) -> str:
    """Returns the path of a library that exists as a file or was installed with the engine."""
    if Path(name).is_file():
        return str(Path(name).absolute())
    is_bare_name = Path(name).name == name
    if is_bare_name and (installed := library(name)):
        return str(installed)
    raise UsageError(
        f"{option}: there is no library {name}",
        remedy="give the path of a shared library, or the name of one installed with busbw",
    )


def versions() -> str:
    """Returns the engine's `--version` output: engine, backends and record schema, one line each."""
    return _query_engine("--version")


def help_text(collective: str = "") -> str:
    """Returns the engine's `--help` output, which lists the flags.

    Args:
        collective: First argument of the engine, such as "comm_ops". Empty: the flags that all collectives have.
    """
    return _query_engine(*filter(None, [collective]), "--help")


def default_ranks() -> int:
    """Returns the number of ranks to measure by default.

    With GPUs, each GPU of this machine has one rank. On the host backend, each processor that this process may use has
    one rank, so that ranks do not wait for a processor. There are at least 2 host ranks, because one rank transfers
    nothing. There are at most 4 host ranks.
    """
    processors = len(os.sched_getaffinity(0))
    return gpu_count() or min(max(processors, 2), 4)


def gpu_count() -> int:
    """Returns the number of GPUs that the engine would use on this machine; 0 if it would use the host backend."""
    return len(devices())


def devices() -> list[str]:
    """Returns a line for each GPU that the engine would use on this machine: index, bus id and name.

    Empty if it would use the host backend.
    """
    return _query_engine("--list-devices").splitlines()


def missing_gpu_support() -> str:
    """Returns why the engine's build has no GPU engine, with a remedy. Empty if it has one."""
    if "backend nccl" in versions():
        return ""
    _, _, reason = _run_engine("--list-devices").stderr.strip().partition("no GPU: ")
    return reason


def world() -> tuple[int, int, str]:
    """Returns the number of this process, the number of processes, and the launcher that started them.

    The launcher is "none" if there is one process. The environment decides, by the engine's rules.
    """
    process, process_count, launcher = _query_engine("--world").split()
    return int(process), int(process_count), launcher


def _query_engine(*words: str) -> str:
    """Returns the engine's output for an informational flag. Raises the errors of `_run_engine`."""
    return _run_engine(*words).stdout.strip()


def _run_engine(*words: str) -> "subprocess.CompletedProcess[str]":
    """Runs the engine with an informational flag, the last of `words`. The name of a program may precede the flag.

    Raises:
        UsageError: The engine refuses the environment, such as contradicting variables of launchers.
        BusbwError: The engine is not found, does not know the flag, fails, or exceeds the time limit.
    """
    path, flag = program(ENGINE), words[-1]
    try:
        return subprocess.run(
            [path, *words], capture_output=True, text=True, errors="replace", timeout=_QUERY_LIMIT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        # An older engine does not know a newer informational flag, and asks for a collective (engine/main.cpp).
        is_flag_unknown = f"{ENGINE} {flag}: no collective before the options" in error.stderr
        if is_flag_unknown:
            engine_text = f"{path} is {versions().splitlines()[0].removeprefix('busbw ')} and lacks {flag}"
            problem = f"engine and busbw differ in version: {engine_text}, busbw is {busbw.__version__}"
            raise BusbwError(problem, remedy="install busbw again") from error
        if error.returncode == ExitCode.USAGE and (message := error.stderr.strip()):
            raise UsageError(message.removeprefix(f"{ENGINE}: ")) from error
        raise BusbwError(f"{path} {flag} failed: {error}", remedy="install busbw again") from error
    except subprocess.TimeoutExpired as error:
        remedy = "check nvidia-smi, dmesg and the file system of the program, then repeat"
        raise BusbwError(f"{path} {flag} did not end within {_QUERY_LIMIT_S} s", remedy=remedy) from error
    except OSError as error:
        remedy = _START_REMEDIES.get(error.errno or 0, "install busbw again")
        raise BusbwError(f"{path} {flag} failed: {error.strerror}", remedy=remedy) from error


def collective_name(program: str) -> str:
    """Removes the suffix `_perf` of a program's name, if present. The collective need not exist."""
    return program.removesuffix("_perf")
