"""Snapshots of the virtual cluster: exactly the facts that the operator would see."""

from functools import cache
from math import inf

from spotrun.api.field_types.text_values import AutoOrDuration, Duration, PositiveDuration
from spotrun.api.spec.checkpoint import Checkpoint as CheckpointSpec
from spotrun.api.spec.checkpoint import ObjectStoreUri
from spotrun.api.spec.limits import Deadline
from spotrun.api.spec.template import TRAINER, Container, PodSpec, PodTemplate
from spotrun.api.spec.workers import Scaling, ScalingMode, Workers
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.money.price_history import PriceHistory
from spotrun.simulate.cluster import Cluster, Worker
from spotrun.simulate.pools import NODE
from spotrun.simulate.scenario import Job
from spotrun.simulate.training import Training, address
from spotrun.state import snapshot as seen
from spotrun.state.job_state import JobState
from spotrun.state.market import Market
from spotrun.state.world_members import training
from spotrun.wire import Ending, LastWords, Progress, Report

_TEMPLATE = "t1"
_LED_SECONDS = 3600.0  # the operator has been the leader for long, so it knows all agents
_NO_NODE = "no node is free"

TEMPLATE = PodTemplate(
    spec=PodSpec(
        containers=(
            Container.model_validate(
                {
                    "name": TRAINER,
                    "image": "your-registry/train:1",
                    "resources": {"limits": {"nvidia.com/gpu": NODE.gpus}},
                }
            ),
        )
    )
)
"""The template of the workers: each fills a node."""


@cache
def spec_of(job: Job, checkpoint_seconds: float) -> TrainingJobSpec:
    """Return the TrainingJob that a user would write for it."""
    every = Duration.of(checkpoint_seconds) if checkpoint_seconds else "Auto"
    return TrainingJobSpec(
        workers=Workers(
            min=job.min_workers,
            max=job.max_workers,
            replicas=job.max_workers,
            template=TEMPLATE,
        ),
        scaling=Scaling(mode=ScalingMode.MANUAL),
        deadline=Deadline(finish_within=PositiveDuration(Duration.of(job.deadline_seconds))),
        checkpoint=CheckpointSpec(
            uri=ObjectStoreUri("s3://your-bucket/checkpoints"), every=AutoOrDuration(every)
        ),
    )


class Snapshots:
    """Makes snapshots of one job."""

    def __init__(self, job: Job, cluster: Cluster, its_training: Training) -> None:
        self._job, self._cluster, self._training = job, cluster, its_training
        self._spec = job.spec or spec_of(job, cluster.rules.checkpoint_seconds)
        self._is_metered = self._spec.budget is not None
        self._lost_at: dict[int, float] = {}

    def look(self, status: JobState, market: Market) -> seen.JobSnapshot:
        """Return the job as it is now."""
        cluster, time = self._cluster, self._cluster.market.time
        workers = tuple(self._worker(cluster.workers[n], status) for n in sorted(cluster.workers))
        return seen.JobSnapshot(
            namespace="replay",
            name="job",
            uid="job",
            version="1",
            generation=1,
            created_at=time(0.0),
            spec=self._spec,
            status=status,
            template=_TEMPLATE,
            workers=workers,
            leading_seconds=_LED_SECONDS,
            lost_seconds=self._lost_seconds(status),
            market=market,
            requests=NODE,
        )

    def _lost_seconds(self, status: JobState) -> dict[int, float]:
        now, workers = self._cluster.now, self._cluster.workers
        lost = [n for n in training(status) if n not in workers or not workers[n].runs(now)]
        self._lost_at = {worker_id: self._lost_at.get(worker_id, now) for worker_id in lost}
        return {worker_id: now - since for worker_id, since in self._lost_at.items()}

    def _worker(self, worker: Worker, status: JobState) -> seen.Worker:
        node = worker.node
        is_bound = node is not None and node.there_at <= self._cluster.now
        if node is None or not is_bound:
            return seen.Worker(self._pod(worker, bound=False))
        has_called = worker.ready_at <= min(self._cluster.now, node.gone_at)
        agent = self._agent(worker) if has_called else None
        return seen.Worker(self._pod(worker, bound=True), self._node(worker), agent)

    def _pod(self, worker: Worker, *, bound: bool) -> seen.Pod:
        time, node = self._cluster.market.time, worker.node
        is_removed = worker.removed_at is not None
        ended_at = time(worker.removed_at) if worker.removed_at is not None else None
        phase = seen.PodPhase.PENDING
        if bound:
            phase = seen.PodPhase.SUCCEEDED if is_removed else seen.PodPhase.RUNNING
        return seen.Pod(
            worker_id=worker.worker_id,
            name=f"job-{worker.worker_id}",
            uid=worker.uid,
            version="1",
            template=_TEMPLATE,
            phase=phase,
            node=node.name if node is not None and bound else None,
            address=address(worker) if bound else None,
            deleting=is_removed,
            killed_at=ended_at,
            metered=worker.metered,
            end=_LEFT if bound and is_removed else None,
            unschedulable="" if bound else _NO_NODE,
            created_at=time(worker.created_at),
            scheduled_at=time(node.there_at) if node is not None and bound else None,
            ended_at=ended_at if bound else None,
            requests=NODE,
            asked=worker.place.capacity,
            pools=worker.place.required,
            slot=worker.slot,
            replica=worker.replica,
        )

    def _node(self, worker: Worker) -> seen.Node:
        node, time = worker.node, self._cluster.market.time
        assert node is not None, "its pod is bound"
        trace, is_gone = node.pool.trace, node.gone_at < inf
        return seen.Node(
            name=node.name,
            gone=is_gone,
            capacity=node.pool.capacity,
            zone=trace.zone,
            pool=node.pool.name,
            instance_type=trace.instance_type,
            region=trace.region,
            created_at=time(node.there_at),
            allocatable=NODE,
            gone_at=time(node.gone_at) if is_gone else None,
            # Only a budget decides by money, so without a budget costs are not added up.
            prices=node.pool.history if self._is_metered else PriceHistory(),
        )

    def _agent(self, worker: Worker) -> seen.Agent:
        now, its = self._cluster.now, self._training
        arrived_at = worker.arrived_at
        report = Report(
            ready=True,
            arrived=worker.arrived,
            store_port=worker.port,
            progress=self._progress(worker),
            committed=its.saved if worker.state is not None else None,
            completed=its.is_complete and its.trains(worker),
            in_process=True,
        )
        return seen.Agent(
            report,
            heard_seconds=0.0,
            ready_seconds=now - worker.ready_at,
            arrived_seconds=now - arrived_at if arrived_at is not None else None,
            progress_seconds=0.0,
        )

    def _progress(self, worker: Worker) -> Progress | None:
        if worker.state is None:
            return None
        step, pace = int(worker.state), self._training.pace
        return Progress(
            world_number=worker.state_world,
            step=step,
            total=max(round(self._job.work_seconds), 1),
            samples=step * self._job.workers,
            step_seconds=1 / pace if pace else None,
        )


_LEFT = seen.PodEnd(exit_code=0, words=LastWords(Ending.DEPARTED))
