"""Writes to a TrainingJob: its status, its annotations, its scale."""
