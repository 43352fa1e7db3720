"""A process that talks to object stores: `python -m spotrun_trainer.data.places.fetcher`.

Loader workers are forks, and the client of object stores does not survive a fork: its threads are
missing, and a request would wait for ever. So a process that reads data from a store starts this
process and sends it a line of JSON for each request. It ends when the process that started it
closes the pipe, or ends.
"""

import base64
import errno
import json
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import obstore
from obstore.exceptions import PreconditionError
from obstore.store import ObjectStore

from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.again import again
from spotrun_trainer.store.read_ahead import PIECE_BYTES, ReadAhead
from spotrun_trainer.store.stores import BESIDE, connect

Asked = Mapping[str, Any]


@lru_cache(maxsize=16)
def store_at(address: str) -> ObjectStore:
    """Return the client for a place."""
    return connect(Address.parse(address), BESIDE)


def list_objects(asked: Asked) -> dict[str, object]:
    """List all objects below a prefix: name, size, and version of each."""
    found = again(lambda: list(obstore.list(store_at(asked["address"]))), asked["address"])
    return {
        "objects": [
            (one["path"], one["size"], _version(one["e_tag"]) or str(one["last_modified"]))
            for some in found
            for one in some
        ]
    }


def _version(e_tag: str | None) -> str:
    """Return an ETag as requests carry it: Azure lists them without their quotes."""
    return f'"{e_tag}"' if e_tag and '"' not in e_tag else e_tag or ""


def read(asked: Asked) -> dict[str, object]:
    """Return the content of an object, or a range of it."""
    content = bytes(_get(asked, asked["start"], asked["stop"]) if "stop" in asked else _get(asked))
    return {"content": base64.b64encode(content).decode()}


def fetch(asked: Asked) -> dict[str, object]:
    """Copy an object into a file, several pieces at a time."""
    num_bytes = asked["bytes"]
    ahead = ReadAhead(lambda start, stop: _get(asked, start, stop), [(0, num_bytes)])
    buffer = memoryview(bytearray(min(PIECE_BYTES, num_bytes)))
    try:
        with Path(asked["target"]).open("xb") as file:
            for start in range(0, num_bytes, PIECE_BYTES):
                part = buffer[: min(PIECE_BYTES, num_bytes - start)]
                ahead.read_into(start, part)
                file.write(part)
    finally:
        ahead.close()
    return {}


def _get(asked: Asked, *bounds: int) -> obstore.Bytes:
    """Return the content of an object that is still the one that was listed."""
    store, where, options = store_at(asked["address"]), _where(asked), dict[str, Any]()
    if bounds:
        options["range"] = bounds
    if asked.get("version", "").startswith('"'):  # an ETag
        options["if_match"] = asked["version"]

    def get() -> obstore.Bytes:
        try:
            return obstore.get(store, asked["name"], options=cast("Any", options)).bytes()
        except PreconditionError as error:
            text = "has changed since the training began with it"
            raise OSError(errno.ESTALE, text, where) from error

    return again(get, where)


def _where(asked: Asked) -> str:
    return f"{asked['address']}/{asked['name']}"


_DO: Mapping[str, Callable[[Asked], dict[str, object]]] = {
    "list": list_objects,
    "read": read,
    "fetch": fetch,
}


def answer(line: str) -> dict[str, object]:
    """Do the request of a line; an error is part of the answer."""
    asked = json.loads(line)
    try:
        return _DO[asked["do"]](asked)
    except OSError as error:
        return {"errno": error.errno or errno.EIO, "error": error.strerror or str(error)}
    except ValueError as error:
        return {"errno": errno.EIO, "error": str(error)}


def main() -> None:
    """Answer requests until the pipe is closed."""
    for line in sys.stdin:
        print(json.dumps(answer(line)), flush=True)


if __name__ == "__main__":
    main()
