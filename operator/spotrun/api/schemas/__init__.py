"""Schemas of the kinds, as the API server takes them and as people read them."""
