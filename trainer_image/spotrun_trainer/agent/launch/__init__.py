"""The start of a worker whose image need not contain this package: an init container copies it."""
