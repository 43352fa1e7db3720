"""The gate of all writes: leader only, limited in number, counted, known to the caches."""

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
"""Requests under way, of all jobs together: nine tenths of what an API server on two cores takes.

With 32 it lags: what jobs of others create then comes through its watches seconds later, for that
is the work of one thread of many (`bench/neighbours.py`). Status writes, of which a job has one at
a time, have as many slots of their own."""


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
        """Start with nothing counted; `leads` must be true to the moment."""
        self.counts: Counter[str] = Counter()
        self._horizon = horizon
        self._leads = leads
        self._slots = Slots(at_once)
        # Of their own: a reaction must not wait until another job's thousand pods are made.
        self._status_slots = Slots(at_once)

    async def do(self, kind: str, namespace: str, write: Callable[[], Awaitable[T]]) -> T:
        """Make one request as soon as a slot is the namespace's; raises KubeError.

        A process that was frozen, or waited for long, goes on in the midst of what it did. So the
        lead is asked for right before each request: others may have acted meanwhile.
        """
        slots = self._status_slots if kind == "status" else self._slots
        async with slots.one(namespace):
            if not self._leads():
                raise NotLeading(f"{kind} was not sent: this replica leads no more")
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
        """Have no decision made about a job until the caches show this version of its object."""
        if version is not None:
            one = Key(job.namespace, name)
            self._horizon.wrote(job, resource, one, version, must_show=must_show)
