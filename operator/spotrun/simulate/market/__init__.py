"""Recorded spot markets, and the nodes available in them at every moment."""
