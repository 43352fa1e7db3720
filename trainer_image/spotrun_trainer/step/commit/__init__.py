"""The commit of a step: votes and sums that either all processes get, or none."""
