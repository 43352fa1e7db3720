"""The workers that train together: start, loss, resize, and extra checkpoints."""
