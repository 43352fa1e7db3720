"""The workers there should be, and those that have to go."""
