"""What the installed command `busbw` starts: interrupts are quiet before the slow imports begin, and at the end."""

import os
import signal


def main() -> int:
    """Runs the command line and returns its exit code."""
    quiet = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, and stays so
    if quiet:
        # Nothing has been done yet that would have to be undone.
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(130))
    from busbw.cli.main import main as run_command_line

    if quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run_command_line()
    # All is said, and there is nothing left to interrupt but Python's own end, which would show a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code
