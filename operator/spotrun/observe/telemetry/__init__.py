"""Reports of agents, and measurements of metrics.k8s.io."""
