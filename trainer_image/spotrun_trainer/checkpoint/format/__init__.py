"""Checkpoints on disk: names, manifests, the division among ranks, writing and reading."""
