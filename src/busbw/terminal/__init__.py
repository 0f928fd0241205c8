"""Terminal output: tables that fit the width, plots, progress lines, and colors for verdicts."""

from busbw.terminal.activity import activity, live_line
from busbw.terminal.console import StreamConsole, console, terminal_width
from busbw.terminal.labeled_lines import labeled_lines
from busbw.terminal.screen import log_lines
from busbw.terminal.sizes_view import ExpectationColumns
from busbw.terminal.tables import Cell, Column, fit_columns, table_lines

__all__ = [
    "Cell",
    "Column",
    "ExpectationColumns",
    "StreamConsole",
    "activity",
    "console",
    "fit_columns",
    "labeled_lines",
    "live_line",
    "log_lines",
    "table_lines",
    "terminal_width",
]
