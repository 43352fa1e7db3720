"""The data of every policy: a job's snapshot, its workers and world, and the actions."""
