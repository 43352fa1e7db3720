"""The processes that load microbatches, and how their results come back."""
