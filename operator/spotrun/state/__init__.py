"""What every policy reads: a job's snapshot, its workers and world, the actions there are."""
