"""`kubectl tjob estimate`: the cost of a user's job on recorded markets."""
