"""Waiting, and what is waited for: a condition, the end of processes; and ports that nobody listens on."""

import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path

HANG_GUARD_S = 300.0
"""Far more than any run here takes on a loaded machine: it guards against hangs and asserts nothing about speed."""


def wait_until(condition: Callable[[], object], what: str = "what was waited for", pause_s: float = 0.01) -> None:
    """Until the condition is true."""
    end_s = time.monotonic() + HANG_GUARD_S
    while not condition():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(pause_s)


def is_running(pid: int) -> bool:
    """True if a process runs. A zombie, which has ended and waits for its parent, does not count."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_for_end(pids: Collection[int]) -> None:
    """Until none of them runs."""
    wait_until(lambda: not any(map(is_running, pids)), f"the end of processes {pids}")


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nobody listened a moment ago; asked for all at once, they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
