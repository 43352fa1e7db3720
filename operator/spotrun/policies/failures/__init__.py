"""What fails, what hangs, and how soon it is tried again."""
