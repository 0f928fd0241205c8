"""Queries the driver (nvml.py) with a time limit. Waking GPUs takes seconds; a broken GPU can hang the call."""

from collections.abc import Callable
from threading import Thread
from typing import Any

from busbw.topology.sources import nvml

NOTICE_AFTER_S = 2.0
"""Time after which the user is told that the driver is slow."""
LIMIT_S = 60.0
"""Time limit for the driver. Eight sleeping GPUs wake in less than 30 s."""


def query_driver(
    driver: Any,
    on_wait: Callable[[str], None],
    *,
    notice_after_s: float = NOTICE_AFTER_S,
    limit_s: float = LIMIT_S,
) -> nvml.NvmlSnapshot:
    """Returns the driver's data, or a snapshot with a note if the driver does not answer.

    A separate thread makes the calls, so that an interrupt ends the program while the driver hangs.

    Args:
        driver: Package of NVML, as `nvml.library` returns it.
        on_wait: Receives a status message for the user if the driver is slow.
        notice_after_s: Time before that message.
        limit_s: Time limit for the driver.
    """
    answers: list[nvml.NvmlSnapshot | Exception] = []  # empty until the thread ends

    def query() -> None:
        try:
            answers.append(nvml.snapshot(driver))
        except Exception as error:
            answers.append(error)

    thread = Thread(target=query, daemon=True)
    thread.start()
    thread.join(notice_after_s)
    if thread.is_alive():
        on_wait(f"waiting for NVIDIA's driver, at most {limit_s:g} s; idle GPUs need time to wake up")
        thread.join(max(0.0, limit_s - notice_after_s))
    if not answers:
        note = f"NVIDIA's driver has not answered for {limit_s:g} s, so GPUs are unknown; check dmesg"
        return nvml.NvmlSnapshot(driver=None, gpus=None, notes=(note,))
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]
