"""Checks of the area libraries."""
