"""Commands of the trainer share this: their beginning and end, progress, and figures as text."""
