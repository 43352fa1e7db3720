"""The use of the object store that contains a job's checkpoints: requests and bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spotrun.wire.reading import object_of, shown, whole

_NAME = re.compile(r"[A-Za-z0-9.:_-]{0,253}")


@dataclass(frozen=True)
class StoreUse:
    """Requests and bytes of a worker's processes in their present world, and what is stored."""

    puts: int = 0  # requests that write, copy or list
    gets: int = 0  # all others except deletions
    put_bytes: int = 0
    got_bytes: int = 0
    stored_bytes: int | None = None  # below the job's prefix; one process of the job knows it
    checkpoints: int | None = None  # the number of checkpoints to which these bytes belong
    region: str = ""  # of the bucket, from the worker's environment
    endpoint: str = ""  # the host of a store that is not the cloud's own

    def plus(self, other: "StoreUse") -> "StoreUse":
        """Add the requests of another process of the same worker."""
        return replace(
            self,
            puts=self.puts + other.puts,
            gets=self.gets + other.gets,
            put_bytes=self.put_bytes + other.put_bytes,
            got_bytes=self.got_bytes + other.got_bytes,
        )


def store_use_content(use: StoreUse) -> dict[str, Any]:
    """Return the use as it is written; zero or unknown fields are absent."""
    content = {
        "puts": use.puts,
        "gets": use.gets,
        "putBytes": use.put_bytes,
        "gotBytes": use.got_bytes,
        "region": use.region,
        "endpoint": use.endpoint,
    }
    known = {"storedBytes": use.stored_bytes, "checkpoints": use.checkpoints}
    present = {key: value for key, value in known.items() if value is not None}
    return {key: value for key, value in content.items() if value} | present


def read_store_use(value: object) -> StoreUse | None:
    """Read the use of a store; raises ValueError."""
    if value is None:
        return None
    content = object_of(value, "store")
    return StoreUse(
        puts=whole(content, "puts", default=0),
        gets=whole(content, "gets", default=0),
        put_bytes=whole(content, "putBytes", default=0),
        got_bytes=whole(content, "gotBytes", default=0),
        stored_bytes=_optional(content, "storedBytes"),
        checkpoints=_optional(content, "checkpoints"),
        region=_name(content, "region"),
        endpoint=_name(content, "endpoint"),
    )


def _optional(content: Mapping[str, Any], key: str) -> int | None:
    return whole(content, key) if content.get(key) is not None else None


def _name(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key, "")
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{key} is a name, not {shown(value)}")
    return value
