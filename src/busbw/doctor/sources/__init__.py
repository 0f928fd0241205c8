"""Trees that checks read: this machine, and captures. `recording` keeps what was read, for a capture."""
