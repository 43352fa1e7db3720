"""Code that the trainer's commands share: their start and end, progress, and numbers as text."""
