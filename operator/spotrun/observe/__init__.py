"""Snapshots of jobs and pools, gathered from caches: after this there is no I/O."""
