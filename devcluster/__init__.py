"""A real Kubernetes control plane on one machine, with nodes that are scripted or run local processes."""
