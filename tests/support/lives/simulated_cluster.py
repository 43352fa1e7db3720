"""A small cluster for random lives: pods, nodes and agents as far as decisions look at them.

It keeps the truth (who holds which state), checks every write against it, and says what it saw.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from spotrun.api.status import Entry
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.policies.chain import decide
from spotrun.state.actions import (
    Action,
    Create,
    Decision,
    DeleteJob,
    Placed,
    Release,
    Remove,
    Resize,
    Withdraw,
)
from spotrun.state.job_state import NO_WORLD, JobState
from spotrun.state.replicas import slot_of
from spotrun.state.sizes import allowed
from spotrun.state.snapshot import Agent, JobSnapshot, Node, Pod, PodEnd, PodPhase, Worker
from spotrun.state.view import View, holds_back
from spotrun.state.worker_outcomes import worker_outcomes
from spotrun.state.world_members import relied_on, training
from spotrun.wire import Checkpoint, Ending, Failure, LastWords, Progress, Report
from tests.support.jobs.builders import NOW
from tests.support.jobs.stored_state import stored

GRACE_SECONDS = 120.0
WARM_SECONDS = 7.0


def settled(status: JobState) -> frozenset[int]:
    """The numbers whose cost is in the sums; here they are few."""
    return frozenset(n for a, b in status.settled.intervals for n in range(a, b + 1))


@dataclass
class SimPod:
    """A worker as it really is."""

    worker_id: int
    uid: str
    template: str
    node: str | None = None
    killed_at: datetime | None = None
    metered: bool = True
    end: PodEnd | None = None
    ready_at: datetime | None = None
    arrived: int = 0
    arrived_at: datetime | None = None
    step: int | None = None  # the state it holds; None: none
    state_world: int = 0
    failed: Failure | None = None
    committed: str | None = None
    ordered: int = 0
    port: int = 0
    slot: int = 0
    replica: int | None = None
    place: Placed = field(default_factory=Placed)
    created_at: datetime | None = None
    silent_since: datetime | None = None  # its node is cut off
    is_gone: bool = False  # with its node
    has_company: bool = False  # a container beside its trainer runs on
    stuck: bool = False  # it lives, but enters no more worlds
    called: bool = False  # this operator has heard of it

    @property
    def runs(self) -> bool:
        return self.node is not None and self.end is None and not self.is_gone


@dataclass
class Cluster:
    """One job and its cluster."""

    spec: TrainingJobSpec
    in_process: bool = True
    now: datetime = NOW
    template: str = "t1"
    status: JobState = field(default_factory=JobState)
    pods: dict[int, SimPod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    ports: int = 20_000
    uids: int = 0
    spec_generation: int = 1
    leading_since: datetime = NOW - timedelta(hours=1)
    written_at: datetime = NOW - timedelta(hours=1)
    lost_at: dict[int, datetime] = field(default_factory=dict)
    cached: JobSnapshot | None = None
    used_stores: dict[str, int] = field(default_factory=dict)
    formed: int = 0  # the newest world that all have entered
    completed: bool = False
    writes: int = 0
    has_capacity: bool = True
    makes_steps: bool = True
    is_deleted: bool = False

    # what the operator sees -----------------------------------------------------------------

    def snapshot(self) -> JobSnapshot:
        workers = tuple(self._worker(self.pods[worker_id]) for worker_id in sorted(self.pods))
        job = JobSnapshot(
            namespace="ns",
            name="job",
            uid="job-uid",
            version=str(self.writes),
            generation=self.spec_generation,
            created_at=NOW,
            spec=self.spec,
            status=self.status,
            template=self.template,
            workers=workers,
            written_seconds=(self.now - self.written_at).total_seconds(),
            leading_seconds=(self.now - self.leading_since).total_seconds(),
        )
        ended = worker_outcomes(job, self.now)
        alive = {worker.worker_id for worker in workers} - set(ended)
        lost = [worker_id for worker_id in training(job.status) if worker_id not in alive]
        self.lost_at = {worker_id: self.lost_at.get(worker_id, self.now) for worker_id in lost}
        ages = {s: (self.now - at).total_seconds() for s, at in self.lost_at.items()}
        return replace(job, lost_seconds=ages)

    def _worker(self, pod: SimPod) -> Worker:
        if pod.end is not None and not pod.has_company:
            is_bad = pod.end.exit_code or pod.end.pod_reason
            phase = PodPhase.FAILED if is_bad else PodPhase.SUCCEEDED
        else:
            phase = PodPhase.RUNNING if pod.node else PodPhase.PENDING
        facts = Pod(
            worker_id=pod.worker_id,
            name=f"job-{pod.worker_id}",
            uid=pod.uid,
            version="1",
            template=pod.template,
            phase=phase,
            node=pod.node,
            address=_address(pod) if pod.node else None,
            deleting=pod.killed_at is not None,
            killed_at=pod.killed_at,
            metered=pod.metered,
            end=pod.end,
            slot=pod.slot,
            replica=pod.replica,
            asked=pod.place.capacity,
            pools=pod.place.required,
            zone=pod.place.zone,
            created_at=pod.created_at,
        )
        node = self.nodes.get(pod.node) if pod.node else None
        return Worker(facts, node, self._agent(pod) if pod.called else None)

    def _agent(self, pod: SimPod) -> Agent:
        world = self.status.world
        present = world.number if world.is_active else world.training_number or 0
        members = training(self.status)
        dead = [
            rank
            for rank, n in enumerate(members)
            if n not in self.pods or not self.pods[n].runs or self.pods[n].silent_since
        ]
        inside = pod.arrived == present and pod.worker_id in members and not pod.silent_since
        is_ready = pod.ready_at is not None and pod.ready_at <= self.now
        report = Report(
            ready=is_ready,
            arrived=pod.arrived,
            failed=pod.failed,
            suspects=tuple(dead[:8]) if inside and pod.runs else (),
            store_port=pod.port,
            progress=Progress(pod.state_world, pod.step) if pod.step is not None else None,
            committed=_checkpoint(pod.committed),
            completed=self.completed and pod.worker_id in members,
            in_process=self.in_process,
        )
        heard = (self.now - pod.silent_since).total_seconds() if pod.silent_since else 0.0
        ready_for = (self.now - pod.ready_at).total_seconds() if is_ready and pod.ready_at else None
        arrived_for = (self.now - pod.arrived_at).total_seconds() if pod.arrived_at else None
        return Agent(report, heard, ready_for, arrived_for)

    # what the operator does -------------------------------------------------------------------

    def operate(self, *, crash_after: int | None = None) -> Decision:
        """Decide and do, but die after so many writes."""
        job = self.cached or self.snapshot()
        self.cached = None
        decision = decide(job, self.now)
        left = 10**9 if crash_after is None else crash_after
        if decision.status != job.status and left:
            self._check_status(View(job, self.now), decision.status)
            self.status, self.written_at = stored(decision.status), self.now
            assert self.status == decision.status, "what is stored is what was decided"
            self.writes += 1
            left -= 1
        elif decision.status != job.status:
            left = 0  # it died before the write, so nothing rests on it
        for action in decision.actions[:left]:
            self._check_action(View(job, self.now), action)
            self._do(action)
            self.writes += 1
        if crash_after is not None:
            self.restart_operator()
        return decision

    def restart_operator(self) -> None:
        self.leading_since = self.now
        self.written_at = self.now - timedelta(hours=1)
        self.lost_at, self.cached = {}, None
        for pod in self.pods.values():
            pod.called = False

    def _do(self, action: Action) -> None:
        match action:
            case Create():
                self._create(action)
            case Withdraw(worker_id, uid):
                pod = self.pods.get(worker_id)
                if pod is not None and pod.uid == uid and pod.node is None:
                    self.delete(worker_id)
            case Remove(worker_id, uid):
                pod = self.pods.get(worker_id)
                if pod is not None and pod.uid == uid:
                    self.delete(worker_id)
            case Release(worker_id, uid):
                pod = self.pods.get(worker_id)
                if pod is not None and pod.uid == uid:
                    pod.metered = False
                    self._collect(pod)
            case Resize(replicas):
                workers = self.spec.workers.model_copy(update={"replicas": replicas})
                self.spec = self.spec.model_copy(update={"workers": workers})
                self.spec_generation += 1
            case DeleteJob():
                self.is_deleted = True

    def _create(self, worker: Create) -> None:
        if worker.worker_id in self.pods:
            return
        self.uids += 1
        self.ports += 1
        self.pods[worker.worker_id] = SimPod(
            worker.worker_id,
            f"uid-{self.uids}",
            self.template,
            port=self.ports,
            slot=worker.slot,
            replica=worker.replica,
            place=worker.place,
            created_at=self.now,
        )

    def delete(self, worker_id: int) -> None:
        pod = self.pods[worker_id]
        if pod.killed_at is None:
            grace = GRACE_SECONDS if pod.runs or pod.has_company else 0.0
            pod.killed_at = self.now + timedelta(seconds=grace)
        self._collect(pod)

    def _collect(self, pod: SimPod) -> None:
        is_over = not pod.runs and not pod.has_company
        if pod.killed_at is not None and is_over and not pod.metered:
            self.pods.pop(pod.worker_id, None)

    # what must hold ---------------------------------------------------------------------------

    def _check_status(self, view: View, new: JobState) -> None:
        old = self.status
        assert (new.next_worker_id or 0) >= (old.next_worker_id or 0), "numbers only grow"
        assert settled(old) <= settled(new), "settled only grows"
        given_out = set(range(new.next_worker_id or 0))
        assert settled(new) <= given_out, "only what was given out is settled"
        for worker_id in settled(new) - settled(old):
            pod = self.pods.get(worker_id)
            if pod is not None and (pod.end is None or pod.has_company):
                assert pod.node is None or self._is_gone(pod), worker_id
        was = old.world.number
        world = new.world
        if world is NO_WORLD:
            return
        assert world.number in {was, was + 1}, "world numbers only grow"
        members = world.members
        assert len(set(members)) == len(members), "nobody has two ranks"
        if world.number == was:
            assert world.members == old.world.members, "a published world keeps its members"
        newly = world.is_active and (world.number > was or not old.world.is_active)
        if newly:
            assert len(members) in allowed(view.job.spec.workers), "its size is allowed"
            assert set(members) <= view.alive_worker_ids, "all are alive"
            templates = {view.by_worker_id[n].pod.template for n in members}
            assert len(templates) == 1, "a world has one template"
            assert world.entry is Entry.RESTART or world.holder_set & set(members)
            slots = [slot_of(view.by_worker_id[n], view.job.spec.workers) for n in members]
            per_replica = view.job.spec.workers.per_replica
            assert slots == [rank % per_replica for rank in range(len(members))], "whole replicas"
        if world.store and world.store != old.world.store:
            known = self.used_stores.setdefault(world.store, world.number)
            assert known == world.number, "a store serves one world"

    def _is_gone(self, pod: SimPod) -> bool:
        return pod.node is not None and self.nodes[pod.node].gone

    def _check_action(self, view: View, action: Action) -> None:
        status = self.status
        match action:
            case Create(worker_id):
                assert worker_id < (status.next_worker_id or 0), "its number is stored first"
                assert worker_id not in settled(status), "it is not made again"
                assert worker_id not in relied_on(status), "no world counts on it"
            case Release(worker_id):
                assert worker_id in settled(status), "its cost is settled first"
            case Remove(worker_id):
                is_free = holds_back(status) or worker_id not in relied_on(status)
                assert is_free or worker_id not in view.alive_worker_ids, "no world counts on it"
            case DeleteJob():
                assert holds_back(status), "it is over"

    def check_books(self) -> None:
        """Every number is settled, has a pod, or is owed."""
        for worker_id in settled(self.status):
            assert worker_id < (self.status.next_worker_id or 0)
        for worker_id in self.pods:
            assert worker_id < (self.status.next_worker_id or 0), "no pod without a number"

    # what workers and the platform do -----------------------------------------------------------

    def live(self) -> None:
        """Let everybody do what can be done at this moment."""
        for pod in list(self.pods.values()):
            self._live(pod)
        self._train()

    def _live(self, pod: SimPod) -> None:
        node = self.nodes.get(pod.node) if pod.node else None
        found = self._node_for(pod) if pod.node is None and pod.killed_at is None else None
        if found is not None:
            pod.node = found.name
            self.nodes[pod.node] = found
            pod.ready_at = self.now + timedelta(seconds=WARM_SECONDS)
        if node is not None and node.gone and not pod.is_gone:
            pod.is_gone, pod.killed_at = True, self.now  # as the pod garbage collector does
            pod.has_company = False
        if pod.has_company and pod.killed_at is not None and pod.killed_at <= self.now:
            pod.has_company = False
        if not pod.runs or node is None:
            self._collect(pod)
            return
        if node.leaves_at is not None and node.leaves_at <= self.now:
            self.nodes[node.name] = replace(node, gone=True, leaves_at=None)
            pod.silent_since = pod.silent_since or self.now
            return
        if pod.silent_since is not None or node.gone:
            return
        pod.called = True
        if pod.killed_at is not None and pod.killed_at <= self.now:
            pod.end = PodEnd(exit_code=143, words=LastWords(Ending.PREEMPTED))
            self._collect(pod)
            return
        self._follow(pod)

    def _follow(self, pod: SimPod) -> None:
        """Do as the operator says: enter a world, save a checkpoint, end."""
        world, status = self.status.world, self.status
        if world.store == f"{_address(pod)}:{pod.port}":
            self.ports += 1
            pod.port = self.ports  # its spare store is taken: it opens another
        if status.phase in {"Succeeded", "Failed"}:
            pod.end = PodEnd(exit_code=0, words=LastWords(Ending.DEPARTED))
            return
        asked = status.orders.checkpoint
        if asked > pod.ordered and pod.step is not None and pod.worker_id in training(status):
            pod.ordered = asked
            pod.committed = f"step-{pod.step}.g{pod.state_world}"
        if not world.is_active or pod.worker_id not in world.member_set or pod.stuck:
            return
        if pod.ready_at is None or pod.ready_at > self.now or pod.arrived >= world.number:
            return
        if world.store is None:
            return
        if pod.failed and world.entry is not Entry.RESTART and pod.worker_id in world.holder_set:
            return  # it should bring the state along, and has none
        pod.arrived, pod.arrived_at = world.number, self.now
        pod.failed = None

    def _train(self) -> None:
        """A world whose members are all there and well trains on."""
        world = self.status.world
        present = world.number if world.is_active else world.training_number
        members = [self.pods.get(n) for n in training(self.status)]
        inside = [
            p for p in members if p and p.runs and not p.silent_since and p.arrived == present
        ]
        if not inside or len(inside) < len(members) or present is None:
            return
        if self.formed < present and world.is_active:
            self._form(present, inside)
        if not self.makes_steps or any(pod.failed for pod in inside):
            return
        step = max(pod.step or 0 for pod in inside) + 1
        for pod in inside:
            pod.step, pod.state_world = step, present

    def _form(self, world_number: int, members: Sequence[SimPod]) -> None:
        """All are there: state goes from those who have it to the others."""
        self.formed = world_number
        world = self.status.world
        if world.entry is Entry.RESTART:
            restored = _checkpoint(world.restore)
            step = restored.step if restored else 0
        else:
            holders = world.holder_set
            sources = [pod for pod in members if pod.worker_id in holders and pod.step is not None]
            assert sources, "somebody who trained is there, and has the state"
            step = max(pod.step or 0 for pod in sources)
            parts = {pod.slot for pod in sources if pod.step == step}
            assert parts == {pod.slot for pod in members}, "each part of the newest state is there"
        for pod in members:
            pod.step, pod.state_world = step, world_number

    def _node_for(self, pod: SimPod) -> Node | None:
        """Return the node that a pod is given; None while there is none."""
        return Node(f"node-{pod.uid}") if self.has_capacity else None

    def next_event(self) -> datetime | None:
        """Return the next moment at which something happens by itself."""
        moments: list[datetime | None] = []
        for pod in self.pods.values():
            if pod.end is None or pod.has_company:
                moments += [pod.ready_at, pod.killed_at if not pod.silent_since else None]
        moments += [node.leaves_at for node in self.nodes.values()]
        return min((at for at in moments if at is not None and at > self.now), default=None)


def _address(pod: SimPod) -> str:
    number = int(pod.uid.removeprefix("uid-"))
    return f"10.0.{number // 256}.{number % 256}"


def _checkpoint(name: str | None) -> Checkpoint | None:
    if name is None:
        return None
    return Checkpoint(name, int(name.removeprefix("step-").partition(".")[0]))
