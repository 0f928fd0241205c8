"""Waits for a condition or for the end of processes, and finds free ports."""

import os
import signal
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

HANG_GUARD_S = 300.0
"""Time limit that guards against hangs. It is far longer than any test takes on a loaded machine."""


def wait_until(condition: Callable[[], object], what: str = "the condition", pause_s: float = 0.01) -> None:
    """Returns once the condition is true. Fails with `what`, a description of the condition, after HANG_GUARD_S."""
    end_s = time.monotonic() + HANG_GUARD_S
    while not condition():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(pause_s)


def is_running(pid: int) -> bool:
    """True if a process runs. A zombie does not count: it has ended and waits for its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state_in(stat) not in {"Z", "X"}


def send_signal(pid: int, number: signal.Signals) -> None:
    """Sends a signal. Returns from SIGSTOP once each thread is stopped.

    The kernel lets one thread stop the others. Until a busy machine runs that thread, the others go on.
    """
    os.kill(pid, number)
    if number == signal.SIGSTOP:
        wait_until(lambda: thread_states(pid) <= {"T", "Z", "X"}, f"process {pid} stops")


def thread_states(pid: int) -> set[str]:
    """Returns the kernel's letters of the states of a process's threads. Empty if the process has ended."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread may just have ended
            states.add(state_in(stat.read_text()))
    return states


def state_in(stat: str) -> str:
    """Returns the field after the name, which is in parentheses."""
    return stat.rpartition(")")[2].split()[0]


def wait_for_end(pids: Collection[int]) -> None:
    """Returns once none of the processes runs."""
    wait_until(lambda: not any(map(is_running, pids)), f"the end of processes {pids}")


def free_ports(count: int) -> list[int]:
    """Returns distinct TCP ports of loopback that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(server.getsockname()[1]) for server in sockets]
    finally:
        for server in sockets:
            server.close()


def free_port() -> int:
    """Returns one such port."""
    return free_ports(1)[0]
