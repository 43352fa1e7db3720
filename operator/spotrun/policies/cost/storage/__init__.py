"""The cost of checkpoints in object stores, and how often a save is worth its cost."""
