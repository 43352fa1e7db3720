"""Writes to the pods of workers: create, withdraw, release."""
