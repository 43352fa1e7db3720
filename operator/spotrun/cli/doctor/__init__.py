"""`kubectl tjob doctor`: what of a job may surprise its user, and what to write instead."""
