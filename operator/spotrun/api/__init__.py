"""The API: TrainingJob and CapacityPool, their names, and the strict way to read them."""

from spotrun.api.capacitypool import CapacityPool
from spotrun.api.load import load
from spotrun.api.trainingjob import TrainingJob

__all__ = ["CapacityPool", "TrainingJob", "load"]
