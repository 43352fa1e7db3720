"""Published policies of others and the optimum, for comparison with spotrun's."""
