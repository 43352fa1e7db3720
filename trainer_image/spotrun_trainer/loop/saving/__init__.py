"""Saves of a training: when, by whom, into which tier, and until when they are waited for."""
