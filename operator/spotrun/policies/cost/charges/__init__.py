"""The charges of each worker: how much per hour, from when to when."""
