"""A check, and the values of a machine that it reads."""
