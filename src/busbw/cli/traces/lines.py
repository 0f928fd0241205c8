"""Lines of the views of traces and replays."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from busbw.terminal import Column, labeled_lines, table_lines
from busbw.terminal.tables import as_cell
from busbw.units import count_text, plain

_LABEL_WIDTH = 10


def column_lines(columns: Sequence[Column], width: int) -> Iterator[Text]:
    """Yields an empty line and a table with the columns that fit the width."""
    yield Text()
    printable = [column._replace(cells=[plain(as_cell(cell).text) for cell in column.cells]) for column in columns]
    yield from table_lines(printable, width)


def hidden_line(count: int, noun: str) -> Iterator[Text]:
    """Yields the line below a table that lacks its last `count` rows. `noun` names a row, such as "rank"."""
    if count > 0:
        yield Text(f"and {count_text(count, f'more {noun}')}; --json has all", "yellow")


def fact_lines(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    """Yields a text after its label."""
    return labeled_lines(f"{label + ':':<{_LABEL_WIDTH}}", plain(text), width, style, label_style=style)
