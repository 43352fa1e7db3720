"""`kubectl tjob idle`: nodes that no workload uses, and what they cost."""
