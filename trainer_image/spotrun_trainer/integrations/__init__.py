"""Adapters for training loops of other frameworks; each module imports its own, this one none."""
