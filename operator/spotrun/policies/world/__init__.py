"""Which workers train together: start, loss, resize, and checkpoints out of turn."""
