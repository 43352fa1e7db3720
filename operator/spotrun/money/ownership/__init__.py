"""Nodes that were bought: their price per hour, and the comparison with rented ones."""
