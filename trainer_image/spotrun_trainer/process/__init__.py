"""What belongs to one process: signals, threads, its device, its files and random numbers."""
