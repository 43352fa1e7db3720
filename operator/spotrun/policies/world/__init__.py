"""The workers that train together: start, loss, resize, and checkpoints out of turn."""
