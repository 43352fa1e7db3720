"""The state of a training: the objects that are tracked, as one flat tree and back."""
