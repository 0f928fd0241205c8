"""Checks of the area scheduler."""
