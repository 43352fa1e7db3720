"""The training loop: what happens between steps."""
