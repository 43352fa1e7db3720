"""`kubectl tjob logs`: the logs of a job's workers by rank, with changes of its world marked."""
