"""The number of workers that a job is worth: measured throughput against money and time."""
