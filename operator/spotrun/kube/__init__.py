"""Kubernetes mechanics: requests, caches, a work queue, a Lease; nothing about training."""
