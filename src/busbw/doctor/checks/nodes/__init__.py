"""Checks of the area nodes."""
