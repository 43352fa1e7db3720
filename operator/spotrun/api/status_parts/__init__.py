"""Parts of a job's status that have a module of their own."""
