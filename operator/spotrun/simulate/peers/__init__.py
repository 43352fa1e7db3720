"""Published policies of others, and the optimum, to compare ours with."""
