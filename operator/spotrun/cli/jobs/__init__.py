"""The verbs for jobs: read from a cluster, and written as screens by pure functions."""
