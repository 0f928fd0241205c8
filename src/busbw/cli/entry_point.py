"""Entry point of the installed command `busbw`: an interrupt prints no traceback, even during the slow imports."""

import os
import signal
import sys

_INTERRUPTED = 130
"""Same as `busbw.errors.ExitCode.INTERRUPTED`. Importing it here would take too long."""


def main() -> int:
    """Runs the command line and returns its exit code."""
    # An ignored SIGINT, as under nohup, stays ignored.
    handles_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_interrupts:
        # Nothing needs cleanup yet.
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
        sys.unraisablehook = _on_unraisable
    from busbw.cli.main import main as run_command_line

    try:
        if handles_interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run_command_line()
        # The output is complete. An interrupt during the exit of Python would show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        # The interrupt came before the command started or after it ended.
        os._exit(_INTERRUPTED)
    return code


def _on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Ends the command if an interrupt came within a `__del__`. Python would print a traceback and go on."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        os._exit(_INTERRUPTED)
    sys.__unraisablehook__(unraisable)
