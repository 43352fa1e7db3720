"""Queues of Kueue: what they have answered to the Workloads of jobs."""
