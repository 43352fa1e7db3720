"""Object stores: their addresses, clients and errors, for checkpoints and for data."""
