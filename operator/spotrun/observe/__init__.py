"""From what the caches hold to one frozen snapshot of a job: after this there is no I/O."""
