"""How many workers a job is worth: measured throughput against money and time."""
