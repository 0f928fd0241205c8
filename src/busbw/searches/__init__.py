"""Records of `busbw find`: their types, and the search that a record holds."""
