"""The workers that a job should have, and those that must go."""
