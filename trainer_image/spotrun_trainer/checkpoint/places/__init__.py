"""The places for checkpoints, by their paths and addresses."""

from spotrun_trainer.checkpoint.places.opening import open_storage
from spotrun_trainer.store.addresses import is_address

__all__ = ["is_address", "open_storage"]
