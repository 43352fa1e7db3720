"""A real Kubernetes on one machine, with nodes that are scripted or run local processes."""
