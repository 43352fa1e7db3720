"""The parts of a TrainingJob's spec."""
