"""The places that checkpoints are kept in, by their paths and addresses."""

from spotrun_trainer.checkpoint.places.addresses import is_address
from spotrun_trainer.checkpoint.places.opening import open_storage

__all__ = ["is_address", "open_storage"]
