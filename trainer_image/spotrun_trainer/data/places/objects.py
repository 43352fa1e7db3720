"""Data in an object store: a separate process makes every request (`fetcher.py`)."""

import base64
from collections.abc import Sequence
from pathlib import Path

from spotrun_trainer.data.places.fetching import FETCHER, SHARD_FETCHER
from spotrun_trainer.data.places.shards import Shard, is_data
from spotrun_trainer.store.addresses import Address


class Objects:
    """The objects below a prefix."""

    def __init__(self, address: Address) -> None:
        self._address = str(address)

    def where(self, name: str = "") -> str:
        """Return the address of the place, or of an object in it."""
        return "/".join(one for one in (self._address, name) if one)

    def shards(self) -> Sequence[Shard]:
        """List all objects: a request for each 1,000 of them."""
        found = FETCHER.ask("list", self._address, "")["objects"]
        shards = [Shard(*one) for one in found if is_data(one[0])]
        return sorted(shards, key=lambda one: one.name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object."""
        try:
            return base64.b64decode(FETCHER.ask("read", self._address, name)["content"])
        except FileNotFoundError:
            return None

    def tail(self, shard: Shard, num_bytes: int) -> bytes:
        """Return the last bytes of a shard."""
        if not shard.num_bytes:
            return b""
        start = max(0, shard.num_bytes - num_bytes)
        asked = {"start": start, "stop": shard.num_bytes, "version": shard.version}
        return base64.b64decode(FETCHER.ask("read", self._address, shard.name, asked)["content"])

    def path(self, shard: Shard) -> None:
        """Return None: objects are not on a disk of this machine."""

    def fetch(self, shard: Shard, target: Path) -> None:
        """Copy an object into a file."""
        asked = {"bytes": shard.num_bytes, "version": shard.version, "target": str(target)}
        SHARD_FETCHER.ask("fetch", self._address, shard.name, asked)
