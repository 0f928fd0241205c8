"""Common form of all logs: tables, rows and long sequences of rows, and the late ranks in them."""
