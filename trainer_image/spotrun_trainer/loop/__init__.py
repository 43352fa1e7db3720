"""The training loop: everything between the steps."""
