"""The cluster as a command line asks it: with its user's own kubeconfig and rights."""
