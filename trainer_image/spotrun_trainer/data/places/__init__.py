"""Places of data: folders, and parts of object stores, as lists of shards."""

from spotrun_trainer.data.places.opening import open_place
from spotrun_trainer.data.places.shards import DataPlace, Shard

__all__ = ["DataPlace", "Shard", "open_place"]
