"""A line on the terminal that says what a command is doing, and is gone when that is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

_SHOW_AFTER_S = 1.5
_REFRESHES_PER_S = 2


@contextmanager
def activity(what: str) -> Iterator[None]:
    """Shows on stderr what goes on and for how long, once it takes longer than anyone waits without a word.

    Nothing is shown where that is no terminal.

    Args:
        what: As one says it, "reading job.log". Nothing else may be written to the terminal meanwhile.
    """
    if not sys.stderr.isatty():
        yield
        return
    start_s = monotonic()
    line = Live(
        console=Console(file=sys.stderr, highlight=False),
        get_renderable=lambda: _dim(f"{what}, {monotonic() - start_s:.0f} s"),
        refresh_per_second=_REFRESHES_PER_S,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    late = Timer(_SHOW_AFTER_S, line.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        line.stop()


@contextmanager
def live_line() -> Iterator[Callable[[str], None]]:
    """A line on stderr that shows what it was last called with; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    with Live(console=Console(file=sys.stderr, highlight=False), auto_refresh=False, transient=True) as live:
        yield lambda text: live.update(_dim(text), refresh=True)


def _dim(text: str) -> Text:
    return Text(text, style="dim", overflow="ellipsis", no_wrap=True)
