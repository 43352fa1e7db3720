"""What a worker knows of itself: where its time goes, how busy it is, and why it ended."""
