"""From one world into the next, without a restart where that is possible."""
