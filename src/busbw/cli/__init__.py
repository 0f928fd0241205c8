"""The `busbw` command: one file per command."""
