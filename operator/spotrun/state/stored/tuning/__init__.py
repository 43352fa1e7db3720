"""What is decided upon and stored of a TuningJob."""
