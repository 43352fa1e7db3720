"""Data in an object store; shards are fetched whole, by a process of its own (`fetcher.py`)."""

from collections.abc import Sequence
from pathlib import Path

import obstore

from spotrun_trainer.data.places.fetching import FETCHER
from spotrun_trainer.data.places.shards import Shard, is_data
from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.again import again
from spotrun_trainer.store.store_errors import as_os_error
from spotrun_trainer.store.stores import BESIDE, connect


class Objects:
    """The objects below a prefix."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def where(self, name: str = "") -> str:
        """Return the address of it all, or of an object of it."""
        return "/".join(one for one in (str(self._address), name) if one)

    def shards(self) -> Sequence[Shard]:
        """List all objects: a request for each 1,000 of them."""
        store = connect(self._address, BESIDE)
        found = again(lambda: list(obstore.list(store)), self.where())
        shards = [
            Shard(one["path"], one["size"], one["e_tag"] or str(one["last_modified"]))
            for some in found
            for one in some
            if is_data(one["path"])
        ]
        return sorted(shards, key=lambda one: one.name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object."""
        store = connect(self._address, BESIDE)

        def get() -> bytes:
            return bytes(obstore.get(store, name).bytes())

        try:
            with as_os_error(self.where(name)):
                return again(get, self.where(name))
        except FileNotFoundError:
            return None

    def tail(self, shard: Shard, num_bytes: int) -> bytes:
        """Return the last bytes of a shard."""
        store, size = connect(self._address, BESIDE), shard.num_bytes

        def get() -> bytes:
            start = max(0, size - num_bytes)
            return bytes(obstore.get_range(store, shard.name, start=start, end=size))

        return again(get, self.where(shard.name)) if size else b""

    def path(self, shard: Shard) -> None:
        """Return None: objects are on no disk of this machine."""

    def fetch(self, shard: Shard, target: Path) -> None:
        """Copy an object into a file."""
        FETCHER.fetch(self.where(), shard.name, shard.num_bytes, shard.version, target)
