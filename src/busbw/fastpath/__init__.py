"""The fast path's library from the outside: its tables, and measuring which method is best for which size."""

from busbw.fastpath.table import METHODS, METHODS_IN_WINDOWS, TABLE_VARIABLE, TableRange, parse, table_text

__all__ = ["METHODS", "METHODS_IN_WINDOWS", "TABLE_VARIABLE", "TableRange", "parse", "table_text"]
