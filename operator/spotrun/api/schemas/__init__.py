"""Schemas of the kinds, for the API server and for people."""
