"""Checks of a step that name what a script does wrong, before anything has changed."""
