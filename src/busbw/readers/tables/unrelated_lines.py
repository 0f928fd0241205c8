"""Recognizes lines that belong to no table, such as the messages of a training job.

A long log has mostly such lines, and the full classification of a line takes several times longer. The test has errors
in one direction only: a line that it does not recognize may be unrelated too.
"""

import re

from busbw.readers.tables.headers import LINE_BEGINNINGS
from busbw.readers.tables.quantities import DTYPES, NO_NUMBER

_MARKS = ("#", "algbw", "-place", "gb/s)", "_perf", "ccl version", "test ", "invalid number", "[benchmark]")
"""Texts of which a column header, a command, a failure or a line of hccl_demo contains at least one, in lower case."""
_BEGINNING = re.compile(
    r"\s*(?:==|%%|[nr]ccl-tests|" + "|".join(re.escape(beginning.lower()) for beginning in LINE_BEGINNINGS) + ")"
)
"""Beginning of a heading, or of a line of a header or footer."""
_ONLY_NAMES = re.compile(r"\s*(?:[a-z_]\w*\s+){1,7}[a-z_]\w*\s*\Z")
"""A line that may name columns."""
_NODES = re.compile(r"\d\s+nodes?\b")
"""Number of nodes, which a heading may state."""
_MAX_NAMES = 5
"""Maximum number of words of letters in a broken row (broken_rows.py): two as size and count, and three others."""
_TWO_NUMBERS = re.compile(r"[\d.,'] [\d.][\d.,'eE+-]*(?: |\Z)")
"""The end of a number and another number. Every broken row has such a pair, because it has at least five numbers."""
_WORDS_OF_ROWS = NO_NUMBER.union(DTYPES)

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MAX_SHAPES = 4096
_MAX_SHAPE_LENGTH = 1000


def is_unrelated(text: str, words: list[str]) -> bool:
    """True if a line cannot change any table or what is known of the document.

    `text` is without its wrapper, and `words` are without the tags of Hydra, the launcher of MPICH.
    """
    lower = text.lower()
    return (
        text.isascii()
        and not any(map(lower.__contains__, _MARKS))
        and _WORDS_OF_ROWS.isdisjoint(words)
        and not _BEGINNING.match(lower)
        and not _ONLY_NAMES.match(lower)
        # A broken row has few words of letters, and two numbers side by side.
        and (sum(map(str.isalpha, words)) > _MAX_NAMES or not _TWO_NUMBERS.search(" ".join(words)))
        and not ("node" in lower and _NODES.search(lower))
    )


def shape_of(line: bytes) -> bytes:
    """Returns the line with 0 instead of each number of at most ten digits, and some zeros instead of a longer one."""
    # Several replacements take a quarter of the time of an expression.
    return line.translate(_ZEROS).replace(b"0000", b"0").replace(b"000", b"0").replace(b"00", b"0")


_NAMES_WITH_DIGITS = {shape_of(name.encode()) for name in DTYPES if not name.isalpha()}
_TYPE_SHAPES = [
    shape for shape in _NAMES_WITH_DIGITS if not any(other in shape for other in _NAMES_WITH_DIGITS - {shape})
]
"""Shapes of element types with digits in their names, such as `int0` of int32, that contain no other such shape."""


class UnrelatedShapes:
    """Shapes of lines that were found to be unrelated.

    Most lines of a long log differ from an earlier line only in digits, and a look-up takes a tenth of the time of the
    tests. The digits of a number matter only in names of element types, and their count in messages of NCCL.
    """

    def __init__(self) -> None:
        self._shapes: set[bytes] = set()

    def __contains__(self, shape: bytes) -> bool:
        return shape in self._shapes

    def add(self, shape: bytes) -> None:
        """Adds the shape of an unrelated line, unless the digits of such a line may matter."""
        may_have_type = any(map(shape.lower().__contains__, _TYPE_SHAPES))
        if may_have_type or b"CCL " in shape or len(shape) > _MAX_SHAPE_LENGTH:
            return
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
        self._shapes.add(shape)
