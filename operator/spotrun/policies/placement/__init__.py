"""The places for workers: pools that can take them, ranked by their cost with interruptions."""
