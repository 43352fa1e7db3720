"""`kubectl tjob run`: from a training script to a TrainingJob, without an image built for it."""
