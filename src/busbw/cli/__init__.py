"""The `busbw` command: one module or package for each command, and modules that they share."""
