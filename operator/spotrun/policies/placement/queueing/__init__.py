"""Jobs that wait for each other: gangs take turns for nodes, and quotas are limited."""
