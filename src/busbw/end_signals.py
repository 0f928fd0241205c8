"""Which signals ask a command to end."""

import signal


def heeded() -> tuple[signal.Signals, ...]:
    """Interrupt, termination and hang-up; not the hang-up where it is ignored: under nohup a command goes on.

    The engine decides likewise.
    """
    always = (signal.SIGINT, signal.SIGTERM)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)
