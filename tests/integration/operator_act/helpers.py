"""A namespace, a job in it, and the operator's loop turned by hand."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from devcluster.nodes import Nodes
from devcluster.scripted import FOREVER, Script
from spotrun.act.executor import Executor, Outcome
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.names import LABEL_JOB_UID
from spotrun.kube.errors import NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Meta, Object, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.snapshot import Readings, job_snapshot
from spotrun.observe.kube_objects import (
    NODES,
    PODS,
    TRAINING_JOBS,
    JobObject,
    NodeObject,
    PodObject,
)
from spotrun.observe.nodes.facts import Nodes as NodeBook
from spotrun.observe.telemetry.agents import Agents
from spotrun.policies.chain import decide
from spotrun.state.job_state import JobState
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot
from spotrun.wire import Report

NAMESPACES = Resource("", "v1", "namespaces")
QUOTAS = Resource("", "v1", "resourcequotas")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")

Manifest = dict[str, Any]


class Some(msgspec.Struct, frozen=True):
    metadata: Meta


@dataclass
class Scripts:
    """The behaviour of containers, by pod name; they run forever unless it is said."""

    by_name: dict[str, Script] = field(default_factory=dict)
    nodes: Nodes | None = None

    def __call__(self, pod: Manifest) -> Script:
        return self.by_name.get(pod["metadata"]["name"], FOREVER)


@dataclass
class Space:
    """One namespace for one test, as a user sees it."""

    client: Client
    namespace: str

    @classmethod
    async def make(cls, client: Client, name: str, level: str | None = None) -> "Space":
        labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
        meta = {"name": name, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        await client.create(NAMESPACES, body, Some)
        space = cls(client, name)
        await space.until(lambda: space.read(SERVICE_ACCOUNTS, "default"))
        return space

    async def create_job(self, name: str = "job", **workers: Any) -> JobObject:
        container = {"name": "trainer", "image": "image", "args": ["train.py"]}
        template = workers.pop("template", {"spec": {"containers": [container]}})
        spec = {"workers": {**workers, "template": template}}
        body = {
            "apiVersion": "spotrun.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self.client.create(TRAINING_JOBS, body, JobObject, namespace=self.namespace)

    async def read(self, resource: Resource, name: str) -> Manifest | None:
        try:
            found: Manifest = await self.client.get(
                resource, name, dict[str, Any], namespace=self.namespace
            )
        except NotFound:
            return None
        return found

    async def pods(self) -> list[Manifest]:
        listed = await self.client.list_all(Selection(PODS, self.namespace), dict[str, Any])
        return list(listed.items)

    async def until(self, look: Callable[[], Any], holds: Callable[[Any], bool] = bool) -> Any:
        async with asyncio.timeout(60):
            while True:
                found = await look()
                if holds(found):
                    return found
                await asyncio.sleep(0.05)


SETTINGS = Settings(server="192.0.2.1:9443", ca_pem="-----BEGIN CERTIFICATE-----\n")


class Clock:
    """Monotonic time that a test can advance."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_seconds


class Shown:
    """The objects that were read last, as caches would show them."""

    def __init__(self) -> None:
        self.versions: dict[Resource, int] = {}
        self._objects: dict[Resource, dict[Key, int]] = {}

    def take(self, resource: Resource, items: Iterable[Object], version: int) -> None:
        metas = [item.metadata for item in items]
        self.versions[resource] = version
        self._objects[resource] = {Key(m.namespace, m.name): m.version for m in metas}

    def last_version(self, resource: Resource) -> int:
        return self.versions.get(resource, 0)

    def version_of(self, resource: Resource, key: Key) -> int | None:
        return self._objects.get(resource, {}).get(key)

    def listed_at(self, _: Resource) -> float:
        return float("-inf")

    def moved_at(self, _: Resource) -> float:
        return float("-inf")


class Hand:
    """An operator without caches: reads objects, decides, carries out; once for each call."""

    def __init__(self, space: Space, client: Client, settings: Settings = SETTINGS) -> None:
        self.space = space
        self.client = client
        self.clock = Clock()
        self.agents = Agents(self.clock)
        self.readings = Readings()
        self.memory = Memory()
        self.shown = Shown()
        self.horizon: Horizon[Key, Resource] = Horizon(self.shown, self.clock)
        self.stored: list[tuple[JobState, str]] = []
        self.executor = Executor(
            client,
            self.horizon,
            lambda: settings,
            lambda _, status, version: self.stored.append((status, version)),
            leads=lambda: True,
            clock=self.clock,
            wall=lambda: datetime.now(UTC),
            roll=lambda: 0.0,
        )

    async def look(self, name: str = "job") -> JobSnapshot:
        client, namespace = self.space.client, self.space.namespace
        job = await client.get(TRAINING_JOBS, name, JobObject, namespace=namespace)
        selection = Selection(PODS, namespace, label_selector=f"{LABEL_JOB_UID}={job.metadata.uid}")
        pods = await client.list_all(selection, PodObject)
        nodes = await client.list_all(Selection(NODES), NodeObject)
        by_name = {node.metadata.name: node for node in nodes.items}
        self.shown.take(PODS, pods.items, pods.version)
        self.shown.take(TRAINING_JOBS, [job], pods.version)
        book = NodeBook(by_name.get, clock=self.clock, wall=lambda: datetime.now(UTC))
        return job_snapshot(
            job,
            pods.items,
            book.look,
            self.agents,
            readings=self.readings,
            memory=self.memory,
            now=datetime.now(UTC),
            now_seconds=self.clock(),
            leading_since=0.0,
        )

    async def turn(self, name: str = "job") -> Outcome:
        job = await self.look(name)
        return await self.executor.carry_out(job, decide(job, datetime.now(UTC)), self.memory)

    async def turn_until(self, holds: Callable[[JobSnapshot], bool]) -> JobSnapshot:
        async with asyncio.timeout(60):
            while not holds(job := await self.look()):
                decision = decide(job, datetime.now(UTC))
                await self.executor.carry_out(job, decision, self.memory)
                await asyncio.sleep(0.05)
        return job

    def report(self, job: JobSnapshot, worker_id: int, report: Report) -> None:
        self.agents.take_report(job.uid, worker_id, report)

    @staticmethod
    def name(job: JobObject, worker_id: int) -> str:
        return worker_name(job.metadata.name, job.metadata.uid, worker_id)
