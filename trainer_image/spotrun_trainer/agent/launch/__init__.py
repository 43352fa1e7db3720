"""The start of a worker in an image that need not hold this package: the operator brings it."""
