"""The operator's imports in two thirds of their time."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CLIENT = "kubernetes"


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collection, and keep kopf from importing the Kubernetes client.

    Imported modules are no garbage. kopf imports that client, if it is installed, to accept its
    objects: spotrun has none, and the import takes a quarter of a second and 12 MB. Code that needs
    the client itself, as for a kubeconfig with a plugin, imports it later.
    """
    hides = _CLIENT not in sys.modules
    if hides:
        sys.modules[_CLIENT] = None  # type: ignore[assignment]  # tells Python: not installed
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if hides:
            del sys.modules[_CLIENT]
