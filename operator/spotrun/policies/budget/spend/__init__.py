"""SpendLimits: what jobs of a namespace may spend together, and which of them may start."""
