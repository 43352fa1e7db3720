"""The effort of hypothesis: for seconds with every change, for long with `make test-deep`."""

import gc
import os

from hypothesis import settings

# The same examples every time: whether a change passes is not left to luck.
settings.register_profile("quick", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish() -> None:
    """Freeze what is loaded: the garbage collector need not look at libraries and tests again."""
    gc.freeze()
