"""Reading a checkpoint: which ranges of which files, by one process or by several together."""
