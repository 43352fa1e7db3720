"""From start to success: progress, suspension, hours, interruptions, completion."""
