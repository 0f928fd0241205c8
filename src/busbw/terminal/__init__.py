"""What a person sees in a terminal: tables that fit its width, pictures, colour where it means something."""

from busbw.terminal.console import StreamConsole, console, width_of
from busbw.terminal.screen import Expected, screen
from busbw.terminal.tables import Cell, Column, fitted, lines
from busbw.terminal.activity import at_work, live_line

__all__ = [
    "Cell",
    "Column",
    "Expected",
    "StreamConsole",
    "at_work",
    "console",
    "fitted",
    "lines",
    "live_line",
    "screen",
    "width_of",
]
