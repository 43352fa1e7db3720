"""The operator's imports in two thirds of their time."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CLIENT = "kubernetes"


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without collections of garbage, and let kopf do without the Kubernetes client.

    Modules are no garbage. kopf imports that client, where it is installed, to accept its objects:
    nobody here has any, and it takes a quarter of a second and 12 MB. Who needs the client itself,
    as for a kubeconfig with a plugin, imports it later.
    """
    hides = _CLIENT not in sys.modules
    if hides:
        sys.modules[_CLIENT] = None  # type: ignore[assignment]  # how Python is told: not there
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if hides:
            del sys.modules[_CLIENT]
