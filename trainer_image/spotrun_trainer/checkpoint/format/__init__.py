"""Checkpoints on disk: names, manifests, who writes what, and how it is read."""
