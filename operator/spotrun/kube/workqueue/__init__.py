"""A work queue: one entry per key."""
