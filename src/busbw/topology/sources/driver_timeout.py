"""Asks the driver without waiting for ever: one that wakes its GPUs takes seconds, one with a broken GPU may hang."""

from collections.abc import Callable
from threading import Thread

from busbw.topology.sources import nvml
from busbw.topology.sources.nvml_functions import Nvml

NOTICE_AFTER_S = 2.0
LIMIT_S = 60.0
"""Eight GPUs that sleep take well under half a minute to wake up."""


def query_driver(
    driver: Nvml | None, say: Callable[[str], None], *, patience_s: float = NOTICE_AFTER_S, limit_s: float = LIMIT_S
) -> nvml.NvmlSnapshot:
    """What the driver says, or that it does not answer.

    The driver is asked in a thread of its own, so that an interrupt ends the program while the driver hangs.

    Args:
        driver: NVML, or None where its package is not installed.
        say: Takes a sentence for the user when the driver takes its time.
        patience_s: After how long that is.
        limit_s: How long it is waited for.
    """
    answers: list[nvml.NvmlSnapshot | Exception] = []

    def work() -> None:
        try:
            answers.append(nvml.snapshot(driver))
        except Exception as error:
            answers.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        say(f"waiting for NVIDIA's driver, {limit_s:g} s at most; GPUs that nobody uses take a while to wake up")
        thread.join(max(0.0, limit_s - patience_s))
    if not answers:
        note = f"NVIDIA's driver has not answered for {limit_s:g} s, so nothing is said of GPUs; dmesg may say why"
        return nvml.NvmlSnapshot(driver=None, gpus=None, notes=(note,))
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]
