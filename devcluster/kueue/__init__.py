"""The real Kueue beside the API server of a test cluster, with its webhooks."""
