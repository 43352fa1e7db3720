"""The number of workers that a job is worth: measured throughput compared with money and time."""
