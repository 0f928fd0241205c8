"""Errors carry what happened, what to do about it, and the exit code that means it."""

import signal
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every program; one meaning each, the same as the engine's."""

    GOOD = 0
    WRONG_DATA = 1
    USAGE = 2
    ENVIRONMENT = 3
    RANK_LOST = 4
    SLOWER_THAN_DEMANDED = 5
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


SIGNALLED = 128
"""Of a program that a signal ended, the exit code is this and the signal's number."""
INTERRUPT_CODES = frozenset({int(ExitCode.INTERRUPTED), SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGHUP})
"""Of what somebody ended, and that did not fail."""


class TerminatedError(KeyboardInterrupt):
    """Termination or a hang-up asked the command to end: an interrupt with another exit code, the engine's for both."""


def interrupt_exit_code(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a command that ends because of it."""
    return SIGNALLED + signal.SIGTERM if isinstance(interrupt, TerminatedError) else ExitCode.INTERRUPTED


class BusbwError(Exception):
    """One sentence for the user: what was wrong, where, and what to do about it. Shown without a traceback."""

    def __init__(self, what: str, *, remedy: str = "", exit_code: int = ExitCode.ENVIRONMENT) -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy
        self.exit_code = exit_code


class UsageError(BusbwError):
    """A doubt about the command line (exit 2)."""

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(what, remedy=remedy, exit_code=ExitCode.USAGE)
