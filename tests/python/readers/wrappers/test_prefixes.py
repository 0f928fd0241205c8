"""Prefixes of lines: bounded memory for any number of writers."""

import tracemalloc

from busbw.readers.wrappers.anchors import find_anchor
from busbw.readers.wrappers.prefixes import PrefixTable


def test_a_new_writer_on_each_line_needs_bounded_memory() -> None:
    table = PrefixTable()
    anchor = find_anchor("8 2 float sum -1 1 1 1 0 1 1 1 0")
    assert anchor is not None
    table.observe("req0:", anchor)
    table.classify()
    tracemalloc.start()
    for number in range(6_000):
        assert str(number) in table.writer(f"req{number}:")
    before_bytes = tracemalloc.get_traced_memory()[0]
    for number in range(6_000, 14_000):
        assert str(number) in table.writer(f"req{number}:")
    growth_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    tracemalloc.stop()
    assert growth_bytes < 500_000  # the names of 8,000 writers take 1.7 MB
