"""Reads text line by line: any output that holds tables. `text_logs` is the reader."""
