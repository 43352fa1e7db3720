"""The costs that each process of the unit tests has before the first of them runs."""

import gc

# While hundreds of modules are imported and thousands of tests are collected, nearly all of it is
# there to stay: looking through it for cycles again and again took a seventh of that time.
gc.disable()


def pytest_collection_finish() -> None:
    """Enable the garbage collector again."""
    gc.enable()
