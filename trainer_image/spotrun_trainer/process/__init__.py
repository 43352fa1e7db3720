"""The parts of one process: signals, threads, its device, its files and random numbers."""
