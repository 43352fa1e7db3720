"""The processes that load microbatches, and how they return results."""
