"""`spotrun operator`: the flags and the start of the operator's process."""
