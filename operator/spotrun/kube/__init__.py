"""Kubernetes mechanics: requests, caches, a work queue, a lease; nothing about training."""
