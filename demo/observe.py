"""Watches the job, its pods, the nodes, the events and the logs, as any user of the cluster can."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import aiohttp

from demo.job import NAMESPACE, Job
from demo.scene import ClusterEvent, Manifest, Scene, Seen, Step, compose, read_event, read_step
from devcluster.access import Access
from devcluster.client import Client, at
from devcluster.watching import WatchEvent

_LINE_BYTES = 2**20
"""A longer line in a worker's log would end the reading of the log."""


class Observer:
    """Follows one job while its `async with` block lasts."""

    def __init__(self, access: Access, client: Client, job: Job) -> None:
        self.steps: list[tuple[float, Step]] = []  # every line of the log, with its time
        self._access = access
        self._client = client
        self._job = job
        self._seen = Seen()
        self._news = asyncio.Event()
        self._began = time.monotonic()
        self._followed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            base_url=self._access.server,
            connector=aiohttp.TCPConnector(ssl=self._access.ssl_context(), limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=_LINE_BYTES,
        )
        self._began = time.monotonic()
        name = {"fieldSelector": f"metadata.name={self._job.name}"}
        ours = {"labelSelector": f"spotrun.dev/job={self._job.name}"}
        jobs = at("trainingjobs", NAMESPACE, group="spotrun.dev/v1alpha1")
        events = at("events", NAMESPACE, group="events.k8s.io/v1")
        self._start(jobs, self._on_job, **name)
        self._start(at("pods", NAMESPACE), self._on_pod, **ours)
        self._start(at("nodes"), self._on_node)
        self._start(events, self._on_event)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()

    @property
    def seconds(self) -> float:
        """Return the seconds since the observer began."""
        return time.monotonic() - self._began

    def scene(self) -> Scene:
        """Return the present scene."""
        return compose(self._seen, self.seconds)

    async def news(self, timeout_seconds: float) -> None:
        """Return when something has changed, or the time is up; raises the errors of watches."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._news.wait()
        self._news.clear()
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _start(self, path: str, take: Callable[[WatchEvent], None], **params: str) -> None:
        self._tasks.add(asyncio.create_task(self._watch(path, take, params)))

    async def _watch(
        self, path: str, take: Callable[[WatchEvent], None], params: dict[str, str]
    ) -> None:
        async for change in self._client.watch(path, **params):
            take(change)
            self._news.set()

    def _on_job(self, change: WatchEvent) -> None:
        self._seen.total_steps = self.scene().total_steps
        self._seen.job = {} if change.type == "DELETED" else change.object

    def _on_pod(self, change: WatchEvent) -> None:
        name = _keep(self._seen.pods, change)
        phase = (change.object.get("status") or {}).get("phase")
        if phase != "Pending" and change.type != "DELETED" and name not in self._followed:
            self._followed.add(name)
            self._tasks.add(asyncio.create_task(self._follow(name)))

    def _on_node(self, change: WatchEvent) -> None:
        _keep(self._seen.nodes, change)

    def _on_event(self, change: WatchEvent) -> None:
        found = read_event(change.object, self._job.name) if change.type == "ADDED" else None
        if found is not None:
            self._seen.events.append(ClusterEvent(self.seconds, *found))

    async def _follow(self, pod: str) -> None:
        """Read a pod's log to its end; it ends with the pod, or with the node."""
        path = at("pods", NAMESPACE, pod, "log")
        params = {"follow": "true", "container": self._job.container}
        with suppress(aiohttp.ClientError):
            async with self._http.get(path, params=params) as answer:
                if answer.status != 200:
                    return  # it ended so early that there is nothing to read
                async for line in answer.content:
                    step = read_step(line.decode(errors="replace"))
                    if step is not None:
                        self._on_step(step)

    def _on_step(self, step: Step) -> None:
        before = self._seen.step
        if step.loss is None and before is not None:
            step = Step(step.number, before.loss)
        self._seen.step = step
        self.steps.append((self.seconds, step))
        self._news.set()


def _keep(known: dict[str, Manifest], change: WatchEvent) -> str:
    name: str = change.object["metadata"]["name"]
    if change.type == "DELETED":
        known.pop(name, None)
    else:
        known[name] = change.object
    return name
