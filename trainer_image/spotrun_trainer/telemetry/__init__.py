"""A worker's measurements of itself: where time goes, how busy it is, and why it ended."""
