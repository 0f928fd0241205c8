"""Temporary status lines on stderr, for commands that take longer than a moment."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from busbw.support.hangup import passed_hangup
from busbw.support.termination_signals import cleaned_up_by

_SHOW_AFTER_S = 1.5
_REFRESHES_PER_S = 2


@contextmanager
def activity(description: str) -> Iterator[None]:
    """Shows an activity and its duration on stderr if it takes longer than 1.5 s.

    Shows nothing if stderr is not a terminal. Nothing else may write to the terminal meanwhile.

    Args:
        description: Text such as "reading job.log".
    """
    if not sys.stderr.isatty():
        yield
        return
    start_s = monotonic()
    live_view = Live(
        console=Console(file=sys.stderr, highlight=False),
        get_renderable=lambda: _dim(f"{description}, {monotonic() - start_s:.0f} s"),
        refresh_per_second=_REFRESHES_PER_S,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    timer = Timer(_SHOW_AFTER_S, live_view.start)
    timer.daemon = True
    timer.start()

    def stop() -> None:
        timer.cancel()
        timer.join()  # otherwise `start` might follow `stop`
        live_view.stop()  # also shows the cursor again

    try:
        with cleaned_up_by(stop):  # a termination signal ends the process without the `finally`
            yield
    finally:
        stop()


@contextmanager
def live_line(*, plain_interval_s: float | None = None) -> Iterator[Callable[[str], None]]:
    """Yields a function that sets the text of a line on stderr.

    Args:
        plain_interval_s: Only for a stderr that is not a terminal: minimum time between two texts, which are separate
            lines. None: no text is printed.
    """
    if not sys.stderr.isatty():
        yield (lambda _text: None) if plain_interval_s is None else _plain_printer(plain_interval_s)
        return
    live = Live(console=Console(file=sys.stderr, highlight=False), auto_refresh=False, transient=True)
    live.start()
    try:
        yield passed_hangup()(lambda text: live.update(_dim(text), refresh=True))
    finally:
        with passed_hangup():
            live.stop()


def _plain_printer(interval_s: float) -> Callable[[str], None]:
    """Returns a function that prints a text as a line, but at most one line per `interval_s`."""
    next_s = monotonic() + interval_s

    def print_if_due(text: str) -> None:
        nonlocal next_s
        if monotonic() >= next_s:
            next_s = monotonic() + interval_s
            print(f"busbw: {text}", file=sys.stderr, flush=True)

    return print_if_due


def _dim(text: str) -> Text:
    return Text(text, style="dim", overflow="ellipsis", no_wrap=True)
