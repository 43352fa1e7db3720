"""The size by how much the workers use, where throughput alone does not tell."""
