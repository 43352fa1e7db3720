"""SpendLimits: the money that jobs of a namespace share, and which of them may start."""
