"""Other policies, as they were published, and the optimum: what ours is compared with."""
