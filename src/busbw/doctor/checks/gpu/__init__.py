"""Checks of the area gpu."""
