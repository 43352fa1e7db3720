"""Writes to the pods of workers: made, taken back, released."""
