"""Requests to the API server."""
