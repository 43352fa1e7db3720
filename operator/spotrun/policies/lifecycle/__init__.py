"""The life of a job: progress, suspension, hours, interruptions, completion."""
