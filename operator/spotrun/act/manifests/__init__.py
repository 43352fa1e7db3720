"""Kubernetes objects that the operator makes. Pure."""
