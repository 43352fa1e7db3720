"""Evaluation between steps: metrics over a dataset, the same on all ranks."""
