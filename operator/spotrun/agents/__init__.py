"""The endpoint of agents: it sends their worlds and receives their reports."""
