"""Training jobs from Python: `from spotrun import Client`. It does what `kubectl tjob` does."""
