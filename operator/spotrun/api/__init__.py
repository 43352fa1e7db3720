"""The API: TrainingJob and CapacityPool, their names, and strict reading of manifests."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun.api.capacitypool import CapacityPool
    from spotrun.api.manifest import load
    from spotrun.api.trainingjob import TrainingJob

__all__ = ["CapacityPool", "TrainingJob", "load"]

_HOMES = {"CapacityPool": "capacitypool", "TrainingJob": "trainingjob", "load": "manifest"}


def __getattr__(name: str) -> object:
    """Import the models when they are used: code that needs only names works without pydantic."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
