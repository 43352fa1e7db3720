"""Searches: which trials begin, are stopped, and what they may cost."""
