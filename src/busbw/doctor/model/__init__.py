"""What a check is, and how it reads a machine."""
