"""CapacityPools: the nodes in them, and the capacity that is free."""
