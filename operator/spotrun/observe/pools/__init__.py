"""CapacityPools: which nodes are in them, and which capacity is free."""
