"""A worker's training processes: started ahead of need, killed, and why they ended."""
