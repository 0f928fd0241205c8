"""How a topology is shown: the table for a terminal and the picture."""
