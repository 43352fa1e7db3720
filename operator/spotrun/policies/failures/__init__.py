"""Failures and hangs of the training, and how soon it is tried again."""
