"""Pure functions from objects of the cluster to what the page shows."""
