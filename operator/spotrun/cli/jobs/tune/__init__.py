"""`kubectl tjob tune`: the trials of a search as a table."""
