"""The places for workers: pools that can take them, by what they cost with interruptions."""
