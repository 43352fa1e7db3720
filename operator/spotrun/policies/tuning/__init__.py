"""Searches: which trials begin, which are stopped, and what they may cost."""
