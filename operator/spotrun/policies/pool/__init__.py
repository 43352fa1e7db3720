"""The operator's knowledge of a CapacityPool, and the jobs that it can serve."""
