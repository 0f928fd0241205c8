"""The table of a topology for a terminal."""
