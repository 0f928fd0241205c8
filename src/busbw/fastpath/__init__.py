"""The fast path's library from the outside: its tables, and measuring which method is best for which size."""

from busbw.fastpath.table import FASTPATH_LIBRARY, METHODS, TABLE_VARIABLE, Range, parse, table_text

__all__ = ["FASTPATH_LIBRARY", "METHODS", "TABLE_VARIABLE", "Range", "parse", "table_text"]
