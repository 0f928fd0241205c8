"""Checks of the area host."""
