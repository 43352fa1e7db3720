"""What a job has cost so far, and what that says: workers' lives and the prices of their time."""
