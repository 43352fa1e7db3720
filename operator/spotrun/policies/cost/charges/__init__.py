"""What each worker is charged per hour, and from when to when."""
