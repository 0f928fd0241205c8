"""Tables of the fast-path library, and the tuner that finds the best method for each size."""

from busbw.fastpath.table import METHODS, METHODS_IN_WINDOWS, TABLE_VARIABLE, TableRange, parse, table_text

__all__ = ["METHODS", "METHODS_IN_WINDOWS", "TABLE_VARIABLE", "TableRange", "parse", "table_text"]
