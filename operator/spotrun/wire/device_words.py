"""The words by which the operator knows that a worker has ended because of its device."""

WRONG_DEVICE = "this device computes wrong numbers"
