"""A checkpoint read back: which ranges of which files, by one process or by several together."""
