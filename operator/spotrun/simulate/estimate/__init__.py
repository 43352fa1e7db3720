"""`kubectl tjob estimate`: what a user's job would cost on recorded markets."""
