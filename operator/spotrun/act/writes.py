"""The only path of all writes: for the leader only, limited, counted, and known to the caches."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from spotrun.api.model import Model
from spotrun.kube.errors import NotLeading
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Meta, Resource
from spotrun.kube.workqueue.slots import Slots

T = TypeVar("T")

AT_ONCE = 8
"""Concurrent requests of all jobs together: they give nine tenths of the writes per second that an
API server on two cores can do.

With 32 its watches lag: other users' objects then appear in them seconds later, because one thread
of many serves a watch (`bench/neighbours.py`). Status writes, of which a job has one at a time,
have as many slots of their own, and come first: agents wait for the world in them."""


class Written(msgspec.Struct, frozen=True):
    """The part of a write's answer that is used: its version."""

    metadata: Meta


def status_patch(version: str, status: Model) -> list[dict[str, object]]:
    """Return the patch that stores a status on this version of its object, or not at all.

    The version makes it conditional. A PUT would be sent twice by the connection pool when a kept
    connection turns out to be dead, and then conflict with itself.
    """
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": status.manifest()},
    ]


class Writes:
    """Limits and counts writes, and remembers the versions that caches have to reach."""

    def __init__(
        self,
        horizon: Horizon[Key, Resource],
        leads: Callable[[], bool],
        at_once: int = AT_ONCE,
    ) -> None:
        """Start with nothing counted; `leads` must always return the present state."""
        self.counts: Counter[str] = Counter()
        self._horizon = horizon
        self._leads = leads
        # Separate: a status write must not wait until another job's thousand pods are created. A
        # node that goes takes workers of many jobs: with their new pods in between, the last of
        # their statuses would be stored twice as late.
        self._status_slots = Slots(at_once)
        self._slots = Slots(at_once, after=self._status_slots, meanwhile=max(at_once // 4, 1))

    async def do(self, kind: str, namespace: str, write: Callable[[], Awaitable[T]]) -> T:
        """Make one request as soon as the namespace has a slot; raises KubeError.

        A process that was frozen continues in the middle of its work, when another replica may be
        the leader already. So the lead is checked right before each request. A request whose
        sending had begun, for example by opening a connection, is still sent: that is why a write
        names the version or UID of its object, or creates one with a name of its own.
        """
        slots = self._status_slots if kind == "status" else self._slots
        async with slots.one(namespace):
            if not self._leads():
                raise NotLeading(f"{kind} was not sent: this replica is no longer the leader")
            answer = await write()
        self.counts[kind] += 1
        return answer

    def reached(
        self,
        job: Key,
        resource: Resource,
        name: str,
        version: int | None,
        *,
        must_show: bool = False,
    ) -> None:
        """Prevent decisions about a job until the caches show this version of its object."""
        if version is not None:
            one = Key(job.namespace, name)
            self._horizon.wrote(job, resource, one, version, must_show=must_show)
