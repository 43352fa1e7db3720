"""The endpoint of agents: it hands worlds out and takes reports in."""
