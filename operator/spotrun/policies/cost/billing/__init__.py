"""Bills: the cost of a namespace's jobs in a month, kept after the jobs are deleted."""
