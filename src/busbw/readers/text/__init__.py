"""Reads text line by line: any output that holds tables.

`text_logs` is the reader. It passes lines to `line_reader`, which removes their wrappers. `clean_line_reader` then
classifies the cleaned lines.
"""
