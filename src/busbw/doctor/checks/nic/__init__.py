"""Checks of the area nic."""
