"""The use of an object store in a worker's report: requests in each world, and stored bytes."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from spotrun.wire import StoreUse
from spotrun_trainer.checkpoint.places.request_count import COUNT, Made, RequestCount
from spotrun_trainer.store.addresses import endpoint_of, is_address

_OF_CLOUDS = {"s3": ".amazonaws.com", "gs": ".googleapis.com", "az": ".windows.net"}
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
"""The region that obstore takes if the environment names none."""


@dataclass(frozen=True)
class Where:
    """The facts that decide a store's prices, as far as the worker knows them."""

    region: str = ""
    endpoint: str = ""


class StoreMeter:
    """This process's requests in the current world, including those on the way into it.

    Requests of the last world that were not reported any more count for the next one.
    """

    def __init__(self, where: Where, count: RequestCount = COUNT) -> None:
        self._where = where
        self._count = count
        self._lock = threading.Lock()
        self._world_number = 0
        self._before = self._reported = Made()
        self._stored: tuple[int | None, int | None] = (None, None)

    def note_stored(self, num_bytes: int, checkpoints: int) -> None:
        """Note the present content of the place."""
        with self._lock:
            self._stored = num_bytes, checkpoints

    def use_in(self, world_number: int) -> StoreUse:
        """Return this part of the report, for a report that is written now."""
        with self._lock:
            if world_number != self._world_number:
                self._before = self._reported if self._world_number else Made()
                self._world_number = world_number
            self._reported = self._count.made()
            here, (num_bytes, checkpoints) = self._reported - self._before, self._stored
        return StoreUse(
            puts=here.puts,
            gets=here.gets,
            put_bytes=here.put_bytes,
            got_bytes=here.got_bytes,
            stored_bytes=num_bytes,
            checkpoints=checkpoints,
            region=self._where.region,
            endpoint=self._where.endpoint,
        )


def open_store_meter(place: str | None, env: Mapping[str, str] = os.environ) -> StoreMeter | None:
    """Return the meter of a process; None if checkpoints are not in an object store."""
    return StoreMeter(where_is(place, env)) if place is not None and is_address(place) else None


def where_is(place: str, env: Mapping[str, str]) -> Where:
    """Return where a bucket is. Only the environment of S3 names a region."""
    scheme = place.partition("://")[0]
    endpoint = endpoint_of(scheme, env)
    if endpoint and not (urlsplit(endpoint).hostname or "").endswith(_OF_CLOUDS[scheme]):
        return Where(endpoint=_host(endpoint))
    if scheme != "s3":
        return Where()
    return Where(region=next((one for name in _REGIONS if (one := env.get(name))), _DEFAULT_REGION))


def _host(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return (parts.hostname or "")[:200] + (f":{parts.port}" if parts.port else "")
