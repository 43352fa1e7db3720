"""The real Kueue beside the API server of a test cluster, its webhooks included."""
