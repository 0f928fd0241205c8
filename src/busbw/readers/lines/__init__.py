"""Opens a log and divides it into lines: joins lines that were cut, and divides lines that are too long."""
