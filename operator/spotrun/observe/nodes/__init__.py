"""Nodes: what their labels say, and how they say that they are going away."""
