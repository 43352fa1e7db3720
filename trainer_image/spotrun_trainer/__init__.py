"""PyTorch training that a spotrun operator can move, grow and shrink."""
