"""Finds the engine's programs and runs them: a process and files, no bindings."""

import os
import re
import select
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import FrameType

from busbw.errors import BusbwError

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
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def versions() -> str:
    """The engine's own words on its version, its backends' and the record schema's, a line each."""
    return _say("--version")


def default_ranks() -> int:
    """How many ranks to measure where the user does not say: every GPU here, or 4 on the host."""
    return gpu_count() or 4


def gpu_count() -> int:
    """How many GPUs the engine would measure on this machine; 0 means that it would measure on the host."""
    return len(_say("--list-devices").splitlines())


def _say(flag: str) -> str:
    """What the engine prints when asked for something about itself."""
    path = program(ENGINE)
    try:
        done = subprocess.run([path, flag], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BusbwError(f"{path} {flag} failed: {error}", remedy="install busbw again") from error
    return done.stdout.strip()


def run(
    command: Sequence[str | Path],
    *,
    on_line: Callable[[bytes], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> int:
    """Runs a program of the engine to its end.

    It gets a session of its own, so that a Ctrl-C reaches it once, from here, and not twice. Interrupts, hang-ups and
    stops are passed on, and this function waits for its end whatever comes. One that came too late to end the program
    takes effect here afterwards, so that it is never lost.

    Args:
        command: The program and its arguments.
        on_line: Called with each line of its stdout. Without it the program writes to our stdout itself.
        on_wait: Called at least once a second while it runs, and after its lines; only with `on_line`.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.
    """
    with _signals_passed_on() as passed_on:
        try:
            process = subprocess.Popen(
                [os.fspath(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if on_line else None,
                start_new_session=True,
            )
        except OSError as error:
            raise BusbwError(f"cannot start {command[0]}: {error.strerror}", remedy="install busbw again") from error
        passed_on.start(process)
        if on_line:
            _pump(process, on_line, on_wait or (lambda: None))
        code = process.wait()
        passed_on.is_heeded = code < 0 or code >= 128
    return code if code >= 0 else 128 - code


def _pump(process: "subprocess.Popen[bytes]", on_line: Callable[[bytes], None], on_wait: Callable[[], None]) -> None:
    assert process.stdout is not None
    pending = b""
    with process.stdout as pipe:
        ended = False
        while not ended:
            readable, _, _ = select.select([pipe], [], [], 1.0)
            try:
                if readable:
                    chunk = os.read(pipe.fileno(), 65536)
                    ended = not chunk
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        on_line(line + b"\n")
                on_wait()
            except BrokenPipeError:
                return  # closing our end tells the engine that nobody reads any more
        if pending:
            on_line(pending)


class _PassedOn:
    """Signals on their way to a process; those that came before it was started reach it too."""

    def __init__(self) -> None:
        self.is_heeded = False
        self.received: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, process: "subprocess.Popen[bytes]") -> None:
        """From now on this process gets them."""
        self._process = process
        for number in self.received:
            process.send_signal(number)

    def pass_on(self, number: int, _frame: FrameType | None) -> None:
        """As a handler of signals."""
        self.received.append(number)
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the process and all of its ranks stop, then this one; they go on together."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGCONT)


@contextmanager
def _signals_passed_on() -> Iterator[_PassedOn]:
    passed_on = _PassedOn()
    before = {number: signal.signal(number, passed_on.pass_on) for number in _PASSED_ON}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, passed_on.stop)
    try:
        yield passed_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if passed_on.received and not passed_on.is_heeded:
        os.kill(os.getpid(), passed_on.received[0])


def collective_of(name: str) -> str:
    """The collective that a user named, with or without `_perf`; empty when there is none of that name."""
    bare = re.sub(r"_perf$", "", name)
    return bare if bare in COLLECTIVES else ""


__all__ = [
    "COLLECTIVES",
    "ENGINE",
    "PROGRAMS_VARIABLE",
    "collective_of",
    "default_ranks",
    "gpu_count",
    "program",
    "run",
    "versions",
]
