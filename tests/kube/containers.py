"""A pod's container as a process, with its output line by line and the time of each."""

import subprocess
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any


@dataclass
class Container:
    """A pod's only container, from its start to the last reader of its log."""

    process: "subprocess.Popen[bytes] | None" = None
    lines: list[tuple[str, bytes]] = field(default_factory=list)
    """Each with the time at which it was written."""
    is_done: bool = False
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started: str = ""
    news: threading.Condition = field(default_factory=threading.Condition)


def collect(container: Container) -> None:
    """Keeps what the container writes, until its end."""
    assert container.process is not None
    assert container.process.stdout is not None
    with container.process.stdout as output:
        for line in output:
            with container.news:
                container.lines.append((now_ns(), line))
                container.news.notify_all()
    code = container.process.wait()
    with container.news:
        container.exit_code = code if code >= 0 else 128 - code
        container.reason = "Error" if code else "Completed"
        container.is_done = True
        container.news.notify_all()


def done(container: Container) -> dict[str, Any]:
    ended: dict[str, Any] = {
        "exitCode": container.exit_code,
        "reason": container.reason,
        "startedAt": container.started,
    }
    return {"terminated": ended | ({"message": container.message} if container.message else {})}


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_ns() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    # As the container runtimes write it: without zeros at the end.
    fraction = f".{nanoseconds:09d}".rstrip("0").rstrip(".")
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
