"""Checks of the area log."""
