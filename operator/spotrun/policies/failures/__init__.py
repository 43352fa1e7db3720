"""Failures and hangs of the training, and how long the operator waits before the next attempt."""
