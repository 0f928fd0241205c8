"""Reads consecutive rows of one writer together, which is faster than line by line."""

from busbw.readers.lines.line_stream import LineStream
from busbw.readers.tables.uniform_rows import ROW_ENDS, UniformRows, is_uniform_row, parse_uniform_rows
from busbw.readers.wrappers.row_wrapper import RowWrapper

_MAX_ROWS = 256
"""Maximum number of rows that are read together."""


class UniformRowReader:
    """Reads as many uniform rows together as the log allows."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self._max_rows = _MAX_ROWS
        """Bound for the next rows. It adapts to the number of uniform rows between other lines."""

    def read(self, number: int, text: str, prefix: str, wrapper: RowWrapper | None) -> UniformRows | None:
        """Reads a line and as many of the lines that follow as possible. None if the line is no uniform row.

        Args:
            number: Number of the line.
            text: The line without its wrapper.
            prefix: Prefix of the line after its wrapper, and of the lines that may follow.
            wrapper: Wrapper of the line, and of the lines that may follow.
        """
        if not prefix.isascii() or not is_uniform_row(text, prefix):
            return None
        taken: list[tuple[int, bytes]] = []
        texts = [text]
        for numbered_line in self._lines:
            taken.append(numbered_line)
            whole_text = numbered_line[1].decode("utf-8", errors="replace")
            text = wrapper.remove_from(whole_text) if wrapper else whole_text
            if len(texts) == self._max_rows or not (text.startswith(prefix) and text.endswith(ROW_ENDS)):
                self._lines.put_back([taken.pop()])
                break
            texts.append(text)
        numbers = [number, *(line_number for line_number, _ in taken)]
        # One line of another form makes all fail. The first half is tried until its lines are uniform.
        while (rows := parse_uniform_rows(numbers, texts, prefix)) is None:
            middle = len(numbers) // 2
            self._lines.put_back(taken[middle - 1 :])
            del numbers[middle:], texts[middle:], taken[middle - 1 :]
            self._max_rows = middle
        self._max_rows = min(2 * self._max_rows, _MAX_ROWS)
        return rows
