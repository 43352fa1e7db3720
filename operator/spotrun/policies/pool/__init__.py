"""Knowledge of a CapacityPool, and which jobs it can serve."""
