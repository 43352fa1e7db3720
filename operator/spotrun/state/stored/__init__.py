"""Parts of a job's state, and the forms in which they are stored."""
