"""Screens of jobs, as pure functions of what was read."""
