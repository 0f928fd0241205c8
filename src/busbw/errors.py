"""Exit codes of all commands, and errors with problem, remedy and exit code."""

import signal
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of all commands, the same as the engine's. Each has one meaning."""

    GOOD = 0
    WRONG_DATA = 1
    USAGE = 2
    ENVIRONMENT = 3
    RANK_LOST = 4
    SLOWER_THAN_DEMANDED = 5
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


EXIT_CODE_MEANINGS: dict[int, str] = {
    ExitCode.GOOD: "good",
    ExitCode.WRONG_DATA: "wrong data",
    ExitCode.USAGE: "usage",
    ExitCode.ENVIRONMENT: "environment",
    ExitCode.RANK_LOST: "a rank was lost or timed out",
    ExitCode.SLOWER_THAN_DEMANDED: "slower than demanded",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.OUTPUT_CLOSED: "output closed by its reader",
    128 + signal.SIGTERM: "terminated or hung up",
}
"""Meaning of each exit code in help texts, the same as in the engine (common/support/exit_code_meanings.hpp)."""

EXIT_CODES_TEXT = f"Exit codes: {', '.join(f'{int(code)} {meaning}' for code, meaning in EXIT_CODE_MEANINGS.items())}."
"""Sentence with all exit codes, for help texts."""

UNDECIDED = 6
"""Exit code of `busbw find` if several parts could be the slow one. The engine returns it only if it runs a search."""
SIGNALLED = 128
"""A program that a signal ended has this exit code plus the signal's number."""
INTERRUPT_CODES = frozenset({int(ExitCode.INTERRUPTED), SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGHUP})
"""Exit codes of programs that were interrupted from outside and did not fail themselves."""


class TerminatedError(KeyboardInterrupt):
    """Interrupt by SIGTERM or SIGHUP. Both have the exit code of SIGTERM, as in the engine."""


def interrupt_exit_code(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of a command that this interrupt ends."""
    return SIGNALLED + signal.SIGTERM if isinstance(interrupt, TerminatedError) else ExitCode.INTERRUPTED


class BusbwError(Exception):
    """An error with a message of one sentence: problem and remedy. It is shown without a traceback."""

    def __init__(self, problem: str, *, remedy: str = "", exit_code: int = ExitCode.ENVIRONMENT) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy
        self.exit_code = exit_code


class UsageError(BusbwError):
    """An invalid or ambiguous command line or input file (exit code 2)."""

    def __init__(self, problem: str, *, remedy: str = "") -> None:
        super().__init__(problem, remedy=remedy, exit_code=ExitCode.USAGE)
