"""The cost of checkpoints in object stores, and how often it is worth to save."""
