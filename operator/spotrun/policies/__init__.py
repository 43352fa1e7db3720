"""Decisions: pure functions from what is known to what is done about it."""
