"""Snapshots made by hand: `a_job(workers=3, min=2).with_worker(0, ready=True).snapshot()`.

Every `with_...` returns a changed copy, so a test can branch off where it likes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Phase
from spotrun.api.status import Entry
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.policies.chain import decide
from spotrun.state.actions import Decision
from spotrun.state.job_state import NO_WORLD, JobState, World
from spotrun.state.snapshot import Agent, JobSnapshot, Node, Pod, PodEnd, PodPhase, Worker
from spotrun.state.stored.training import AcknowledgedCheckpoint
from spotrun.state.view import View
from spotrun.wire import Checkpoint, Ending, Failure, LastWords, Progress, Report

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
TEMPLATE = "t1"
ON_CLAIM = {"volume": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_spec(workers: int = 1, **spec: Any) -> TrainingJobSpec:
    """A spec of so many workers; `min`, `max` and `sizes` may be given, and all else of a spec."""
    numbers: dict[str, Any] = {
        "min": spec.pop("min", 1),
        "max": spec.pop("max", max(workers, 1)),
        "replicas": workers,
        **{key: spec.pop(key) for key in ("sizes", "perReplica") if key in spec},
    }
    trainer = {"name": "trainer", "image": "your-registry/train:1"}
    template = spec.pop("template", {"spec": {"containers": [trainer]}})
    content = {"workers": {**numbers, "template": template}, **spec}
    return TrainingJobSpec.model_validate_json(json.dumps(content))


def a_worker(
    worker_id: int,
    *,
    ready: bool | None = None,
    arrived: int = 0,
    in_process: bool = True,
    needs_boundary: bool = False,
    leaving: bool = False,
    broken: int = 0,
    saves_on_order: bool | None = None,
    failed: Failure | None = None,
    suspects: tuple[int, ...] = (),
    store_port: int | None = None,
    progress: Progress | None = None,
    committed: str | None = None,
    committed_orders: int | None = None,
    completed: bool = False,
    heard: float = 0.0,
    ready_for: float = 0.0,
    arrived_for: float | None = None,
    progress_for: float | None = None,
    node: Node | str | None = "",
    leaves_in: float | None = None,
    **pod: Any,
) -> Worker:
    """A worker on a node of its own; its agent has called if `ready` is given."""
    place = (
        Node(f"node-{worker_id}") if node == "" else Node(node) if isinstance(node, str) else node
    )
    if place is not None and leaves_in is not None:
        place = replace(place, leaves_at=later(leaves_in))
    step = int(committed.removeprefix("step-").partition(".")[0]) if committed else 0
    report = Report(
        ready=bool(ready),
        arrived=arrived,
        failed=failed,
        suspects=suspects,
        store_port=20_000 + worker_id if store_port is None else store_port,
        progress=progress or (Progress(arrived, 100) if arrived else None),
        committed=Checkpoint(committed, step, committed_orders) if committed else None,
        completed=completed,
        in_process=in_process,
        needs_boundary=needs_boundary,
        leaving=leaving,
        broken=broken,
        saves_on_order=saves_on_order,
    )
    agent = None
    if ready is not None:
        agent = Agent(report, heard, ready_for if ready else None, arrived_for, progress_for)
    facts = {
        "name": f"job-{worker_id}",
        "uid": f"uid-{worker_id}",
        "version": "1",
        "template": TEMPLATE,
        "phase": PodPhase.RUNNING if place is not None else PodPhase.PENDING,
        "node": place.name if place is not None else None,
        "address": f"10.0.0.{worker_id}" if place is not None else None,
        **pod,
    }
    return Worker(Pod(worker_id, **facts), place, agent)


def an_end(
    reason: Ending | None = None, exit_code: int = 0, message: str = "", **end: Any
) -> dict[str, Any]:
    """Return the fields of a pod that has ended, with the last words of its worker or without."""
    words = LastWords(reason, exit_code=exit_code, message=message) if reason else None
    phase = PodPhase.FAILED if exit_code else PodPhase.SUCCEEDED
    return {"phase": phase, "end": PodEnd(exit_code=exit_code, words=words, **end)}


@dataclass(frozen=True)
class JobBuilder:
    """A job that is being put together."""

    spec: TrainingJobSpec
    status: JobState = field(default_factory=JobState)
    workers: Mapping[int, Worker] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def with_worker(self, worker_id: int, **worker: Any) -> Self:
        """Return the job with a worker, or another in its place; its number is given out."""
        made = a_worker(worker_id, **worker)
        known = {**self.workers, worker_id: made}
        numbers = max(self.status.next_worker_id or 0, worker_id + 1)
        return replace(self, workers=known).with_status(next_worker_id=numbers)

    def with_workers(self, *worker_ids: int, **worker: Any) -> Self:
        """Return the job with several workers alike."""
        job = self
        for worker_id in worker_ids:
            job = job.with_worker(worker_id, **worker)
        return job

    def without(self, worker_id: int) -> Self:
        """Return the job without a worker: its pod has vanished."""
        return replace(self, workers={n: w for n, w in self.workers.items() if n != worker_id})

    def with_world(
        self,
        members: str,
        world_number: int = 1,
        *,
        is_active: bool = True,
        entry: Entry = Entry.RESTART,
        state_holders: str = "",
        late_workers: str = "",
        joining_workers: str = "",
        formed: float = 60.0,
        **world: Any,
    ) -> Self:
        """Return the job with a published world, formed so many seconds ago."""
        made = World(
            number=world_number,
            members=WorkerIds(members).numbers,
            is_active=is_active,
            entry=entry,
            state_holders=WorkerIds(state_holders).numbers,
            late_workers=WorkerIds(late_workers).numbers,
            joining_workers=WorkerIds(joining_workers).numbers,
            formed_at=ago(formed),
            **world,
        )
        return self.with_status(world=made)

    def training(self, *worker_ids: int, world_number: int = 1, **worker: Any) -> Self:
        """Return the job with these workers in a world that has formed."""
        members = WorkerIds.of(worker_ids)
        job = self.with_workers(*worker_ids, ready=True, arrived=world_number, **worker)
        store = "10.0.0.1:1"
        return job.with_world(members, world_number, store=store).with_status(phase=Phase.RUNNING)

    def with_status(self, **status: Any) -> Self:
        """Return the job with these fields of the stored status."""
        return replace(self, status=replace(self.status, **status))

    def with_state(self, state: JobState) -> Self:
        """Return the job with this state stored, e.g. what was decided before."""
        return replace(self, status=state)

    def with_checkpoint(self, step: int = 100, seconds_ago: float = 60.0) -> Self:
        """Return the job with an acknowledged checkpoint."""
        saved = AcknowledgedCheckpoint(f"step-{step}.g1", step, ago(seconds_ago))
        return self.with_status(checkpoint=saved)

    def with_spec(self, workers: int = 1, **spec: Any) -> Self:
        """Return the job with another spec."""
        return replace(self, spec=a_spec(workers, **spec))

    def with_facts(self, **facts: Any) -> Self:
        """Return the job with other fields of the snapshot."""
        return replace(self, facts={**self.facts, **facts})

    def snapshot(self) -> JobSnapshot:
        """The snapshot itself."""
        facts: dict[str, Any] = {
            "namespace": "ns",
            "name": "job",
            "uid": "job-uid",
            "version": "7",
            "generation": 1,
            "created_at": ago(3600),
            "template": TEMPLATE,
            "leading_seconds": 3600.0,
            **self.facts,
        }
        workers = tuple(self.workers[worker_id] for worker_id in sorted(self.workers))
        return JobSnapshot(spec=self.spec, status=self.status, workers=workers, **facts)

    def view(self, now: datetime = NOW) -> View:
        """Return the view that policies look at."""
        return View(self.snapshot(), now)

    def decide(self, now: datetime = NOW) -> Decision:
        """Return what is decided about it."""
        return decide(self.snapshot(), now)


def a_job(workers: int = 1, **spec: Any) -> JobBuilder:
    """A job of which nothing is there yet."""
    return JobBuilder(a_spec(workers, **spec))


def a_spot_node(name: str, zone: str = "") -> Node:
    """A node that may be taken away."""
    return Node(name, capacity=Capacity.SPOT, zone=zone)


def world(job: JobBuilder) -> World:
    """The world that is decided on."""
    return job.decide().status.world


def decided_world(job: JobBuilder) -> tuple[Any, ...] | None:
    """Number, members, whether it is active, entry and state holders of the next world."""
    new = world(job)
    if new is NO_WORLD:
        return None
    holders = WorkerIds.of(new.state_holders) or None
    return (new.number, WorkerIds.of(new.members), new.is_active, new.entry, holders)


def lost(job: JobBuilder, *worker_ids: int, seen: float = 0.3) -> JobBuilder:
    """Return the job without the nodes of these workers, which was seen so many seconds ago."""
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, node=Node("n", gone=True))
    return job.with_facts(lost_seconds=dict.fromkeys(worker_ids, seen))
