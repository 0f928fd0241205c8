"""Reads consecutive uniform rows of one writer together, which is faster than line by line.

A uniform row has the most frequent form of a row (`busbw.readers.tables.uniform_rows`).
"""

from busbw.readers.lines.line_stream import LineStream
from busbw.readers.tables.uniform_rows import ROW_ENDS, UniformRows, is_uniform_row, parse_uniform_rows
from busbw.readers.wrappers.row_wrapper import RowWrapper

_MAX_ROWS = 256
"""Maximum number of rows that are read together."""


class UniformRowReader:
    """Reads the uniform rows of one log, several at a time."""

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self._max_rows = _MAX_ROWS
        """Maximum number of rows of the next call. It falls if another line is among the rows, and then doubles again.

        So little work is lost in a log with other lines between short tables."""

    def read(self, number: int, text: str, prefix: str, wrapper: RowWrapper | None) -> UniformRows | None:
        """Reads a uniform row, and some or all of the uniform rows that follow. None if the line is no uniform row.

        Args:
            number: Number of the line.
            text: The line without its wrapper.
            prefix: Prefix of the line after its wrapper, and of the rows that may follow.
            wrapper: Wrapper of the line, and of the rows that may follow.
        """
        if not prefix.isascii() or not is_uniform_row(text, prefix):
            return None
        following, following_texts = self._take_candidates(prefix, wrapper)
        numbers = [number, *(line_number for line_number, _ in following)]
        texts = [text, *following_texts]
        # None if one of the lines is no uniform row. Then the second half of the lines is put back, if necessary until
        # only the first line remains, which is a uniform row.
        while (rows := parse_uniform_rows(numbers, texts, prefix)) is None:
            kept_count = len(numbers) // 2
            kept_following_count = kept_count - 1  # `following` lacks the first line
            self._lines.put_back(following[kept_following_count:])
            del numbers[kept_count:], texts[kept_count:], following[kept_following_count:]
            self._max_rows = kept_count
        self._max_rows = min(2 * self._max_rows, _MAX_ROWS)
        return rows

    def _take_candidates(self, prefix: str, wrapper: RowWrapper | None) -> tuple[list[tuple[int, bytes]], list[str]]:
        """Takes the next lines that begin and end like uniform rows. Returns them, and their texts without wrapper."""
        taken: list[tuple[int, bytes]] = []
        texts: list[str] = []
        for numbered_line in self._lines:
            whole_text = numbered_line[1].decode("utf-8", errors="replace")
            text = wrapper.remove_from(whole_text) if wrapper else whole_text
            may_be_row = text.startswith(prefix) and text.endswith(ROW_ENDS)
            is_full = len(texts) == self._max_rows - 1  # one row is that of the first line
            if is_full or not may_be_row:
                self._lines.put_back([numbered_line])
                break
            taken.append(numbered_line)
            texts.append(text)
        return taken, texts
