"""Entry point of the installed command `busbw`: an interrupt prints no traceback, even during slow imports."""

import gc
import os
import signal

_INTERRUPTED = 130
"""Same as `busbw.errors.ExitCode.INTERRUPTED`. Importing it here would take too long."""
_NEW_OBJECTS_PER_COLLECTION = 10_000
"""Threshold of the garbage collector, which frees reference cycles; rows of logs have none. With 700, the default up to
Python 3.12, the collector takes up to 15 % of the time."""


def main() -> int:
    """Runs the command line and returns its exit code.

    An interrupt ends the process at once, as SIGTERM does. Python's own handler would raise KeyboardInterrupt at an
    arbitrary point, such as an import or a `__del__`. Commands with work to finish or to undo handle it themselves
    (`cli.interrupts`, `termination_signals`).
    """
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION)
    # An ignored SIGINT, as under nohup, stays ignored.
    handles_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupts:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    from busbw.cli.main import main as run_command_line

    code = run_command_line()
    if handles_interrupts:
        # The output is complete, so a late Ctrl-C must not change the exit code. Python restores the default action of
        # SIGINT before the process has ended.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code
