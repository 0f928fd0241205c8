"""What a person sees in a terminal: tables that fit its width, pictures, colour where it means something."""

from busbw.terminal.activity import activity, live_line
from busbw.terminal.console import StreamConsole, console, width_of
from busbw.terminal.screen import ExpectationColumns, screen
from busbw.terminal.tables import Cell, Column, fitted, lines

__all__ = [
    "Cell",
    "Column",
    "ExpectationColumns",
    "StreamConsole",
    "activity",
    "console",
    "fitted",
    "lines",
    "live_line",
    "screen",
    "width_of",
]
