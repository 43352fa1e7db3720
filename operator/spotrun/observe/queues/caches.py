"""The caches of Kueue's Workloads: filled if its API is served, and without cost otherwise.

Kueue may be installed or removed while the operator runs, so the API is searched for regularly.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, NoReturn, Self

from spotrun.api.names import LABEL_JOB_UID
from spotrun.kube.errors import KubeError, NotFound
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.tasks import running
from spotrun.kube.watch.reflector import Reflector
from spotrun.observe.kube_objects import JobObject
from spotrun.observe.queues.objects import (
    GROUP,
    VERSIONS,
    FlavorObject,
    PriorityObject,
    WorkloadObject,
    read,
    workloads,
)
from spotrun.state.names import asked_hash
from spotrun.state.queue import Queue

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
"""The pause between checks for the API while it is not served: Kueue may go unnoticed so long."""


class QueueCaches:
    """The answers of Kueue, kept up to date in an `async with` block if it is enabled."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        wake: Callable[[Key], None],
        hurry: Callable[[Key], None],
        follow: Callable[[dict[str, Reflector[Any]]], None],
        is_enabled: bool,
        most_boost: int = 0,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Prepare the caches; `follow` is called with the existing reflectors.

        `hurry` is called with jobs that were admitted or evicted: others wait for what they hold.
        """
        self.api_version = ""
        self._client = client
        self._namespace = namespace
        self._wake = wake
        self._hurry = hurry
        self._follow = follow
        self._is_enabled = is_enabled
        self._most_boost = most_boost
        self._look_seconds = look_seconds
        self.known = asyncio.Event()  # set once Kueue's answers, or its absence, are known
        if not is_enabled:
            self.known.set()
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._is_enabled:
            await self._stack.enter_async_context(running(self._look()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def queue_of(self, job: JobObject, template: str) -> Queue | None:
        """Return the queue that a job names, and its answers; None if it names none."""
        meta = job.metadata
        name, priority_class = meta.labels.queue, meta.labels.queue_priority or ""
        if not name:
            return None
        if not self.api_version:
            return Queue(name)
        classes, flavors = self._reflectors["priorities"], self._reflectors["flavors"]
        priority = classes.get("", priority_class) if priority_class else None
        known = {one.metadata.name: one for one in flavors.store}
        prebuilt = meta.labels.prebuilt or meta.annotations.prebuilt or ""
        asked = asked_hash(template, name)
        objects = self._prebuilt(job, prebuilt) if prebuilt else self._owned(job)
        requests = [read(one, known, asked, meta.uid) for one in objects]
        return Queue(
            name,
            self.api_version,
            priority_class,
            priority.value if priority is not None else None,
            self._most_boost,
            tuple(sorted(requests, key=lambda w: w.number)),
            prebuilt,
        )

    def _owned(self, job: JobObject) -> Iterable[WorkloadObject]:
        return self._reflectors["workloads"].by_index("owner", job.metadata.uid)

    def _prebuilt(self, job: JobObject, name: str) -> Iterable[WorkloadObject]:
        """Return the Workload that was made for a job, unless another job owns it."""
        found: WorkloadObject | None
        found = self._reflectors["workloads"].get(job.metadata.namespace, name)
        is_free = found is not None and found.metadata.owner_uid in (None, job.metadata.uid)
        return (found,) if found is not None and is_free else ()

    async def _look(self) -> NoReturn:
        """Follow Kueue while its API is served, and check for it while it is not."""
        while True:
            version = await self._served()
            if version:
                log.info("found Kueue (%s/%s): it admits jobs that name a queue", GROUP, version)
                await self._follow_while_served(version)
                log.warning("the cluster no longer serves Kueue's API: jobs that name a queue wait")
                self._use("", {})
            if version is not None:
                self.known.set()
            await asyncio.sleep(self._look_seconds)

    async def _served(self) -> str | None:
        """Return the newest served version, empty if none; None if that cannot be found out now."""
        for version in VERSIONS:
            found = await self._serves(version)
            if found is not False:
                return version if found else None
        return ""

    async def _serves(self, version: str) -> bool | None:
        """Whether a version of the API is served; None if that cannot be found out now."""
        try:
            await self._client.newest_version(Selection(workloads(version), self._namespace))
        except NotFound:
            return False
        except KubeError as error:
            log.warning("Kueue's Workloads cannot be listed: %s", error)
            return None
        return True

    async def _follow_while_served(self, version: str) -> None:
        reflectors = self._new_reflectors(version)
        async with AsyncExitStack() as stack:
            for one in reflectors.values():
                await stack.enter_async_context(running(one.run()))
            for one in reflectors.values():
                await one.synced.wait()
            self._use(version, reflectors)
            self.known.set()
            while True:
                await asyncio.sleep(self._look_seconds)
                has_failed = any(one.failures for one in reflectors.values())
                if has_failed and await self._serves(version) is False:
                    return

    def _new_reflectors(self, version: str) -> dict[str, Reflector[Any]]:
        of_jobs = Selection(workloads(version), self._namespace, label_selector=LABEL_JOB_UID)
        flavors = Selection(Resource(GROUP, version, "resourceflavors"))
        priorities = Selection(Resource(GROUP, version, "workloadpriorityclasses"))
        return {
            "workloads": Reflector(
                self._client,
                of_jobs,
                WorkloadObject,
                self._changed,
                indices={"owner": _owner},
            ),
            "flavors": Reflector(self._client, flavors, FlavorObject, self._others_changed),
            "priorities": Reflector(self._client, priorities, PriorityObject, self._others_changed),
        }

    def _use(self, version: str, reflectors: dict[str, Reflector[Any]]) -> None:
        self._reflectors, self.api_version = reflectors, version
        self._follow({f"kueue {name}": one for name, one in reflectors.items()})

    def _changed(self, old: WorkloadObject | None, new: WorkloadObject | None) -> None:
        wake = self._hurry if _is_decided(old, new) else self._wake
        for one in (old, new):
            # A Workload that another cluster's Kueue created has no owner yet.
            name = one and (one.metadata.owner_name or one.metadata.labels.job)
            if one is not None and name:
                wake(Key(one.metadata.namespace, name))

    def _others_changed(self, _old: object, _new: object) -> None:
        """Wake the jobs that have Workloads: a flavor or a priority class has changed."""
        known = self._reflectors.get("workloads")
        for one in known.store if known is not None else ():
            self._changed(None, one)


def _is_decided(old: WorkloadObject | None, new: WorkloadObject | None) -> bool:
    """Whether Kueue has just admitted or evicted a request."""
    return new is not None and any(
        new.condition(kind) is not None and (old is None or old.condition(kind) is None)
        for kind in ("Admitted", "Evicted")
    )


def _owner(one: WorkloadObject) -> Iterable[str]:
    owner = one.metadata.owner_uid
    return (owner,) if owner is not None else ()
