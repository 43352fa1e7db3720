"""Changes of worlds in a process, without a restart where that is possible."""
