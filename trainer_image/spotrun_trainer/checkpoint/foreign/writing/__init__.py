"""Writing a model in formats of other programs, with only a few pieces of a tensor in memory."""
