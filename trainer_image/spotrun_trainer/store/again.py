"""Requests that have to be repeated, beyond those that obstore repeats by itself."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from spotrun_trainer.store.store_errors import CutOffError, as_os_error

_PAUSES = (0.1, 0.4, 1.6)

T = TypeVar("T")


def again(ask: Callable[[], T], where: str) -> T:
    """Return the result of a request, which is repeated if its answer is cut off.

    It must be a request that may be made twice. Other passing errors obstore retries by itself.
    """
    for pause in _PAUSES:
        with suppress(CutOffError), as_os_error(where):
            return ask()
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secrets
    with as_os_error(where):
        return ask()
