"""What the installed command `busbw` starts: interrupts are quiet before the slow imports begin, and at the end."""

import os
import signal

_INTERRUPTED = 130
"""As `busbw.errors.Exit` has it, which is one of the imports."""


def main() -> int:
    """Runs the command line and returns its exit code."""
    quiet = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, and stays so
    if quiet:
        # Nothing has been done yet that would have to be undone.
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    from busbw.cli.main import main as run_command_line

    try:
        if quiet:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run_command_line()
        # All is said, and there is nothing left to interrupt but Python's own end, which would show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        # It came just before the command line heeded it, or just after: nothing has begun, or all is said.
        os._exit(_INTERRUPTED)
    return code
