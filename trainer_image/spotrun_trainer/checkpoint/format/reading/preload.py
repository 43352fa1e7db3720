"""Fetching a checkpoint before it is loaded, while the script makes its model.

The tensors are not known yet. So we assume that as many processes hold a copy of the model as when
it was saved; these read whole files. Otherwise the fetched files are not used.
"""

import os

from spotrun_trainer.checkpoint.format.manifest import (
    Manifest,
    data_file,
    manifest_file,
    read_manifest,
    read_marker,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.reader import Reader
from spotrun_trainer.checkpoint.format.storage import MARKER, Storage
from spotrun_trainer.telemetry.container_usage import memory_left

MOST_FILES = 4
SHARE_OF_MEMORY = 1 / 8
"""Meanwhile each process of the worker makes its model in the same memory."""


def most_bytes(local_size: int) -> int:
    """Return the bytes that each of `local_size` processes of a worker may hold."""
    return int(memory_left(os.getpid()) * SHARE_OF_MEMORY / local_size)


def preload(place: Storage, name: Name, reader: Reader, most: int) -> int:
    """Begin to fetch the files that a process will read; return how many bytes it may hold.

    Loading finds what is wrong with a checkpoint: this may raise OSError or ValueError, but nothing
    depends on it.
    """
    marker = read_marker(place.read(name, MARKER))
    ranks = range(len(marker.manifests))[reader.shard :: reader.shards]
    own = ranks[reader.rank // reader.shards :: reader.size // reader.shards]
    begun = 0
    for rank in own[:MOST_FILES]:
        manifest = read_manifest(place.read(name, manifest_file(rank)))
        held = min(manifest.file_bytes, most - begun)
        if not _is_as_here(manifest, reader) or held <= 0:
            break
        place.begin_reading(name, data_file(rank), manifest.file_bytes, held)
        begun += held
    return begun


def _is_as_here(manifest: Manifest, reader: Reader) -> bool:
    return (manifest.shards, manifest.stages) == (reader.shards, reader.stages)
