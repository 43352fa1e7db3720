"""One job's snapshot, made from the caches."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import TypeVar

import msgspec
import msgspec.structs
from pydantic import ValidationError

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.observe.jobs.device_claims import NO_DEVICES, Devices
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.ledger_check import why_impossible
from spotrun.observe.jobs.partial_spec import salvage
from spotrun.observe.jobs.pods import pod_facts, worker_id_in
from spotrun.observe.jobs.template_check import wrong_type
from spotrun.observe.jobs.volumes import UNKNOWN, Storage
from spotrun.observe.kube_objects import (
    CostAnnotations,
    CostLabels,
    JobAnnotations,
    JobObject,
    PodObject,
)
from spotrun.observe.telemetry.agents import Agents
from spotrun.policies.fallback_chain import undecided
from spotrun.state import codec
from spotrun.state.job_state import JobState
from spotrun.state.names import template_hash
from spotrun.state.snapshot import Broken, JobSnapshot, Node, Pod, Worker
from spotrun.state.worker_outcomes import missed_by_both, worker_outcomes
from spotrun.state.world_members import training

MOST_WORKER_IDS = 2**31
_COST = frozenset(one.encode_name for one in msgspec.structs.fields(CostAnnotations))
_LABELS = frozenset(one.encode_name for one in msgspec.structs.fields(CostLabels))
_SCRIPT = frozenset(one.encode_name for one in msgspec.structs.fields(JobAnnotations)) - _COST
_CANNOT_READ = "this operator cannot read the job"


@dataclass(frozen=True)
class _Spec:
    raw: msgspec.Raw
    digest: bytes
    spec: TrainingJobSpec | None
    template: str
    wrong: str = ""
    readable: TrainingJobSpec | None = None  # the readable part of a wrong spec
    has_template: bool = True


@dataclass(frozen=True)
class _Status:
    raw: msgspec.Raw
    digest: bytes
    status: JobState | None
    wrong: str = ""
    impossible: str | None = None  # the part that no operator can have written


_NOTHING = _Status(msgspec.Raw(), b"", JobState())


class Readings:
    """The specs, statuses and pods of objects, each parsed once.

    They are kept by content, not by version, because versions repeat after etcd is restored from a
    copy. If it is the same object in memory, the content is not compared: each worker asks for its
    job's status, whose length grows with the number of workers.
    """

    def __init__(self) -> None:
        self._specs: dict[str, _Spec] = {}
        self._statuses: dict[str, _Status] = {}
        self._pods: dict[str, dict[int, tuple[PodObject, Pod]]] = {}  # by job, by worker id

    def spec(self, job: JobObject) -> _Spec:
        """Return the spec and its template's hash, or what is wrong with it."""
        known = self._specs.get(job.metadata.uid)
        if known is None or known.raw is not job.spec:
            known = self._specs[job.metadata.uid] = _read(known, job, job.spec, _read_spec)
        return known

    def status(self, job: JobObject) -> _Status:
        """Return the status, or what is wrong with it; another controller's counts as empty."""
        if self.is_handed_over(job):
            return _NOTHING
        known = self._statuses.get(job.metadata.uid)
        if known is None or known.raw is not job.status:
            known = self._statuses[job.metadata.uid] = _read(known, job, job.status, _read_status)
        return known

    def is_handed_over(self, job: JobObject) -> bool:
        """Whether another controller runs the job, and writes its status."""
        read = self.spec(job)
        spec = read.spec or read.readable
        return spec is not None and spec.managed_by is not None

    def pods(self, uid: str, objects: Iterable[tuple[int, PodObject]]) -> list[Pod]:
        """Return the facts about these pods, by worker id, and forget the job's other pods."""
        known = self._pods.get(uid, {})
        read: dict[int, tuple[PodObject, Pod]] = {}
        for worker_id, pod in sorted(objects, key=itemgetter(0)):
            before = known.get(worker_id)
            if before is None or before[0] is not pod:
                before = pod, pod_facts(pod, worker_id)
            read[worker_id] = before
        self._pods[uid] = read
        return [facts for _, facts in read.values()]

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._specs.pop(uid, None)
        self._statuses.pop(uid, None)
        self._pods.pop(uid, None)


def job_snapshot(
    job: JobObject,
    pods: Iterable[PodObject],
    look_at_node: Callable[[str], Node],
    agents: Agents,
    *,
    readings: Readings,
    memory: Memory,
    now: datetime,
    now_seconds: float,
    leading_since: float,
    storage: Storage = UNKNOWN,
    devices: Devices = NO_DEVICES,
) -> JobSnapshot:
    """Return the facts for a decision about a job; times in seconds are on the monotonic clock.

    For a job that cannot be decided, these are the facts needed to release it.
    """
    meta = job.metadata
    spec, status = readings.spec(job), readings.status(job)
    readable = spec.spec or spec.readable
    assert readable is not None, "a wrong spec has a readable part"
    broken = _broken(spec, status)
    ledger = status.status if broken is None or broken.has_ledger else None
    facts = readings.pods(meta.uid, _worker_pods(job, pods, ledger))
    agents.keep(meta.uid, {pod.worker_id for pod in facts})
    workers = tuple(_worker(pod, meta.uid, look_at_node, agents) for pod in facts)
    snapshot = JobSnapshot(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        created_at=datetime.fromisoformat(meta.creation_timestamp),
        spec=readable,
        status=status.status or JobState(),
        template=spec.template,
        deleting=meta.deletion_timestamp is not None,
        workers=workers,
        refusal=memory.refused.refusal if memory.refused is not None else None,
        undone=memory.undone,
        written_seconds=now_seconds - memory.written_at,
        leading_seconds=now_seconds - leading_since,
        annotated=_present(meta.annotations, _COST),
        script=_present(meta.annotations, _SCRIPT),
        cost_labels=cost_labels(meta.labels),
        is_trial=meta.labels.tuning_job is not None,
        volume_is_shared=storage.is_shared,
        volume_zones=storage.zones,
        sync_bytes_per_step=_sync_bytes(workers),
        claimed=_claimed(workers, spec.template) or devices.count,
        claims_uncounted=devices.why_unknown,
        broken=broken,
    )
    if ledger is None:
        return snapshot
    try:
        snapshot = replace(snapshot, missed_seconds=_missed(snapshot, memory, now_seconds))
        return replace(snapshot, lost_seconds=_losses(snapshot, memory, now_seconds, now))
    except Exception as error:
        return undecided(snapshot, error)


def _broken(spec: _Spec, status: _Status) -> Broken | None:
    if status.impossible is not None:
        words = f"{_CANNOT_READ}: {status.impossible}; restore its status from before it was edited"
        kind, reason = ConditionType.DECIDED, Reason.LEDGER_REFUSED
        return Broken(words, kind, reason, has_ledger=False)
    if spec.spec is not None and status.status is not None:
        return None
    return Broken(
        spec.wrong or status.wrong,
        has_ledger=status.status is not None,
        may_be_said=status.status is not None,
        has_template=spec.has_template,
    )


def cost_labels(labels: CostLabels) -> dict[str, str]:
    """Return the labels by which people group costs, those that are set."""
    return _present(labels, _LABELS)


def _present(named: CostAnnotations | CostLabels, wanted: frozenset[str]) -> dict[str, str]:
    """Return the entries that are set, by their names in manifests."""
    found: dict[str, str | None] = msgspec.to_builtins(named)
    return {name: value for name, value in found.items() if name in wanted and value is not None}


def _worker_pods(
    job: JobObject, pods: Iterable[PodObject], status: JobState | None
) -> Iterator[tuple[int, PodObject]]:
    """Return the job's own workers among the pods, with their worker ids.

    If the status cannot be read, it is unknown which worker ids were given out: then only owner and
    name are checked.
    """
    meta = job.metadata
    given_out = (status.next_worker_id or 0) if status is not None else MOST_WORKER_IDS
    for pod in pods:
        worker_id = worker_id_in(pod, meta.name, meta.uid, given_out)
        if worker_id is not None:
            yield worker_id, pod


def _worker(pod: Pod, uid: str, look_at_node: Callable[[str], Node], agents: Agents) -> Worker:
    node = look_at_node(pod.node) if pod.node is not None else None
    is_old = agents.speaks_old_wire(uid, pod.worker_id)
    return Worker(pod, node, agents.facts(uid, pod.worker_id), is_old)


def _sync_bytes(workers: Iterable[Worker]) -> float | None:
    reported = (w.agent.report.progress for w in workers if w.agent is not None)
    return max((one.sync_bytes for one in reported if one and one.sync_bytes), default=None)


def _claimed(workers: Iterable[Worker], template: str) -> int:
    """Return the devices that each worker was created with: a claim may since be replaced."""
    made = (one.pod.requests.claimed for one in workers if one.pod.template == template)
    return max(made, default=0)


def _missed(job: JobSnapshot, memory: Memory, now_seconds: float) -> dict[int, float]:
    """Return the time since which each worker is missed by both its neighbours."""
    missed = missed_by_both(job)
    memory.missed_at = {
        worker_id: memory.missed_at.get(worker_id, now_seconds) for worker_id in missed
    }
    return {worker_id: now_seconds - since for worker_id, since in memory.missed_at.items()}


def _losses(
    job: JobSnapshot, memory: Memory, now_seconds: float, now: datetime
) -> dict[int, float]:
    """Return since when each trained member is lost; a loss that proves false is forgotten."""
    ended = worker_outcomes(job, now)
    alive = {worker.worker_id for worker in job.workers if worker.worker_id not in ended}
    lost = [worker_id for worker_id in training(job.status) if worker_id not in alive]
    memory.lost_at = {worker_id: memory.lost_at.get(worker_id, now_seconds) for worker_id in lost}
    return {worker_id: now_seconds - since for worker_id, since in memory.lost_at.items()}


R = TypeVar("R", _Spec, _Status)


def _read(
    known: R | None, job: JobObject, raw: msgspec.Raw, read: Callable[[JobObject, bytes], R]
) -> R:
    digest = _digest(raw)
    if known is not None and known.digest == digest:
        return replace(known, raw=raw)
    return read(job, digest)


def _digest(raw: msgspec.Raw) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def _read_spec(job: JobObject, digest: bytes) -> _Spec:
    try:
        spec = TrainingJobSpec.model_validate_json(bytes(job.spec), by_alias=True, by_name=False)
    except ValidationError as error:
        readable, has_template = salvage(bytes(job.spec))
        return _Spec(job.spec, digest, None, "", _words("spec", error), readable, has_template)
    wrong = wrong_type(spec.workers.template)
    if wrong is not None:
        words = f"{_CANNOT_READ}: {wrong}"[:MAX_DETAIL_CHARS]
        return _Spec(job.spec, digest, None, "", words, spec)
    return _Spec(job.spec, digest, spec, template_hash(spec))


def _read_status(job: JobObject, digest: bytes) -> _Status:
    try:
        status = TrainingJobStatus.model_validate_json(
            bytes(job.status), by_alias=True, by_name=False
        )
    except ValidationError as error:
        return _Status(job.status, digest, None, _words("status", error))
    if impossible := why_impossible(status):
        return _Status(job.status, digest, codec.read_said(status), impossible=impossible)
    try:
        return _Status(job.status, digest, codec.read(status))
    except ValueError as error:  # prices and times in long lists: the API server checks none
        words = f"status.accumulators: {error}"
        return _Status(job.status, digest, codec.read_said(status), impossible=words)


def _words(root: str, error: ValidationError) -> str:
    found = (
        f"{'.'.join(map(str, (root, *one['loc'])))}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors(include_url=False, include_input=False)
    )
    return f"{_CANNOT_READ}: {'; '.join(found)}"[:MAX_DETAIL_CHARS]
