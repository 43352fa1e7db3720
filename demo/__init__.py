"""`make demo`: a real TrainingJob survives the loss of its nodes, here and before your eyes."""
