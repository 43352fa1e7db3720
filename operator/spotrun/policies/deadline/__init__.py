"""Deadlines: whether a job is on schedule, and when it must leave spot to finish in time."""
