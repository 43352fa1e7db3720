"""Queues of Kueue, and their answers to the Workloads of jobs."""
