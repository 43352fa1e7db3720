"""GPUs: when they compute, and what their driver reports of faults and of clocks that it lowers."""
