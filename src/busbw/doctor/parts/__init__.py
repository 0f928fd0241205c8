"""Parts of an examined machine, for several checks. All functions raise Unreadable if a value cannot be read."""
