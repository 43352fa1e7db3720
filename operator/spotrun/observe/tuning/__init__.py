"""TuningJobs, and the TrainingJobs of their trials."""
