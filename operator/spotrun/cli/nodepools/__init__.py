"""`kubectl tjob nodepools`: what Karpenter should know of the CapacityPools."""
