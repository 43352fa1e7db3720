"""The size by how much the workers use, where throughput alone is not enough."""
