"""The cost of a job so far, and what that says: workers' lives and the prices of their time."""
