"""Views of a topology: the table for a terminal and the picture."""
