"""The life of a job: progress, suspension, schedule, interruptions, completion."""
