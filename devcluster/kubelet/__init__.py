"""A kubelet in asyncio: one process keeps the nodes and the pods of a whole test cluster."""
