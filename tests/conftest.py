"""How hard hypothesis tries: for seconds with every change, for long with `make test-deep`."""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("deep", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
