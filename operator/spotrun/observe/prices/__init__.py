"""Prices of nodes: from tables, and from clouds."""
