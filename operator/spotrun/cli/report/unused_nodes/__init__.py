"""`kubectl tjob idle`: nodes that hold no pod of anybody, and what they cost."""
