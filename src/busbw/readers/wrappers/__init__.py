"""Removes from lines what other programs wrote around them: prefixes, strings, columns of CSV, markup.

`unwrapping` is the entry; `row_wrapper` is its shortcut for lines that have the wrapper of the last row.
"""
