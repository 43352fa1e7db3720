"""Nodes: their labels, and the signs that they are going away."""
