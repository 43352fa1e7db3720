"""Decisions: pure functions from the known facts to the actions."""
