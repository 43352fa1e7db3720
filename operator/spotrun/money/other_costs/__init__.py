"""Costs besides those of nodes: traffic between zones and regions, and object stores."""
