"""Recorded spot markets, and what is to be had in them at every moment."""
