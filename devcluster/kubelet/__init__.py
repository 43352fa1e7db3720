"""A kubelet in asyncio: one process runs the nodes and the pods of a whole test cluster."""
