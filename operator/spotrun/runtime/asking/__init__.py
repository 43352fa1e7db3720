"""The values of the next trial of a search: who is asked for them, and who waits."""
