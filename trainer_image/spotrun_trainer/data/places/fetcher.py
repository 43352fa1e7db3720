"""A process that fetches objects into files: `python -m spotrun_trainer.data.places.fetcher`.

Loader workers are forks, and the client of object stores does not survive a fork: its threads are
not there. So whoever needs a shard starts this process and asks it, a line of JSON for each file.
It ends when the one who started it closes the pipe, or is gone.
"""

import errno
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import PreconditionError
from obstore.store import ObjectStore

from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.again import again
from spotrun_trainer.store.read_ahead import PIECE_BYTES, ReadAhead
from spotrun_trainer.store.stores import BESIDE, connect


@lru_cache(maxsize=16)
def store_at(address: str) -> ObjectStore:
    """Return the client for a place."""
    return connect(Address.parse(address), BESIDE)


def fetch(asked: Mapping[str, Any]) -> None:
    """Copy an object into a file, several pieces at a time."""
    address, name, num_bytes = asked["address"], asked["name"], asked["bytes"]
    store, where = store_at(address), f"{address}/{name}"

    def piece(start: int, stop: int) -> obstore.Bytes:
        options: Any = {"range": (start, stop)}
        if asked["version"].startswith('"'):  # an ETag
            options["if_match"] = asked["version"]
        try:
            return again(lambda: obstore.get(store, name, options=options).bytes(), where)
        except PreconditionError:
            raise _changed(where) from None
        except OSError as error:
            raise (_changed(where) if "Precondition" in str(error.__cause__) else error) from None

    ahead = ReadAhead(piece, [(0, num_bytes)])
    buffer = memoryview(bytearray(min(PIECE_BYTES, num_bytes)))
    try:
        with Path(asked["target"]).open("xb") as file:
            for start in range(0, num_bytes, PIECE_BYTES):
                part = buffer[: min(PIECE_BYTES, num_bytes - start)]
                ahead.read_into(start, part)
                file.write(part)
    finally:
        ahead.close()


def _changed(where: str) -> OSError:
    return OSError(errno.ESTALE, "has changed since the training began with it", where)


def answer(line: str) -> dict[str, object]:
    """Do what a line asks for; an error is part of the answer."""
    try:
        fetch(json.loads(line))
    except OSError as error:
        return {"errno": error.errno or errno.EIO, "error": error.strerror or str(error)}
    except ValueError as error:
        return {"errno": errno.EIO, "error": str(error)}
    return {}


def main() -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        print(json.dumps(answer(line)), flush=True)


if __name__ == "__main__":
    main()
