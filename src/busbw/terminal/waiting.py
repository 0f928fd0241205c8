"""A line on the terminal that says what a command is doing, once that takes longer than anyone waits without a word."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

_UNNOTICED_S = 1.5
_REFRESHES_PER_S = 2


@contextmanager
def at_work(what: str) -> Iterator[None]:
    """Shows on stderr what goes on and for how long, from a while on; nothing where that is no terminal.

    Args:
        what: As one says it, "reading job.log". Nothing else may be written to the terminal meanwhile.
    """
    if not sys.stderr.isatty():
        yield
        return
    start_s = monotonic()
    line = Live(
        console=Console(file=sys.stderr, highlight=False),
        get_renderable=lambda: Text(
            f"{what}, {monotonic() - start_s:.0f} s", style="dim", overflow="ellipsis", no_wrap=True
        ),
        refresh_per_second=_REFRESHES_PER_S,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    late = Timer(_UNNOTICED_S, line.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        line.stop()
