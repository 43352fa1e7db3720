"""A Kubernetes operator for spot-aware, auto-scaling PyTorch training jobs."""
