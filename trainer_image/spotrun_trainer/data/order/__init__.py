"""The order of samples: the number of each, its process, and its random numbers."""
