"""Nodes that you own: their price per hour, and the comparison with rented ones."""
