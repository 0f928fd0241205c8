"""Parts of a machine that several checks examine, such as its NICs, as they are read from a tree."""
