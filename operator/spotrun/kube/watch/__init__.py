"""Caches that follow the API server."""
