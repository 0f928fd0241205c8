"""Tests of `busbw replay` with the installed programs."""
