"""Access to a cluster from a command line, with the user's own kubeconfig and rights."""
