"""Which sample has which number, who loads it, and what random numbers it gets."""
