"""Which workers there should be, and who has to go."""
