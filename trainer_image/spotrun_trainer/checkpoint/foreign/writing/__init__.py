"""Writing a model as other programs read it, in memory for a few pieces of a tensor."""
