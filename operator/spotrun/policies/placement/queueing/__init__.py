"""Jobs wait for each other: gangs take turns, and quotas are used up."""
