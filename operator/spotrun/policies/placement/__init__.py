"""Where workers go: pools that can take them, in the order of what they cost with interruptions."""
