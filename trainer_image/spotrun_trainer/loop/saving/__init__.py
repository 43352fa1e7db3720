"""Saves of a training: when, by which process, into which tier, and how long they are awaited."""
