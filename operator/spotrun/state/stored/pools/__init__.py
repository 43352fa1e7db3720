"""The facts stored about a CapacityPool, and their way into the CRD's status and back."""
