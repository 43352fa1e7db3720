"""`make demo`: a real TrainingJob survives the loss of its nodes on this machine."""
