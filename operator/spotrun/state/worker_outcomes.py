"""The outcome of each worker: alive, or ended and why.

What the platform did to a worker (Reclaimed, NodeLost, Drained, Preempted) is an interruption and
never counts as a failure; what the worker did itself does. A worker that its node rejected is
neither: nothing of it ever ran.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from spotrun.api.names import Phase, Reason
from spotrun.api.status import Entry
from spotrun.state.snapshot import JobSnapshot, Pod, PodEnd, PodPhase, Worker
from spotrun.wire import Ending, is_of_device

INTERRUPTIONS = frozenset({Reason.RECLAIMED, Reason.NODE_LOST, Reason.DRAINED, Reason.PREEMPTED})
FAILURES = frozenset(
    {
        Reason.OOM_KILLED,
        Reason.EVICTED,
        Reason.EXIT_CODE,
        Reason.FAULTY_DEVICE,
        Reason.UNUSABLE_IMAGE,
        Reason.HUNG,
    }
)

_SILENT_SECONDS = 1.0  # a healthy agent in doubt answers its open poll within this
CUT_OFF_SECONDS = 10.0
"""A worker that answers the operator, but that both neighbours miss for this long, trains alone."""
NEW_LEADER_SECONDS = 60.0  # the longest time that agents get to find a new leader
FOUND_LEADER_SECONDS = 10.0
"""The time that a worker in doubt gets once another worker of the job has found the leader: agents
try again after 5 s at most, for 5 s each time."""

_DISRUPTIONS: Mapping[str, Reason] = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    "EvictionByEvictionAPI": Reason.DRAINED,
    "DeletionByTaintManager": Reason.NODE_LOST,
    "DeletionByPodGC": Reason.NODE_LOST,
}
# A node that shuts down gracefully and one under pressure give the same condition; only the
# words differ (kubelet, nodeshutdown_manager: "...in response to imminent node shutdown.", and
# "Pod was rejected as the node is shutting down." for pods that it no longer takes).
_SHUTDOWN = ("node shutdown", "node is shutting down")
_PREEMPTING = "Preempting"  # by a kubelet, to make room for a static or critical pod
_CANNOT_START = "StartError"  # containerd's reason if it cannot execute a program
_SHELL = "/bin/sh"
NO_SHELL = (
    f"the image has no {_SHELL}, which starts its Python: use an image with a shell, or one with "
    "spotrun and workers.inject: Never"
)
_OWN_DEADLINE = "DeadlineExceeded"  # activeDeadlineSeconds of the template


@dataclass(frozen=True)
class WorkerOutcome:
    """A worker's end; `cause` is None if it ended as it should.

    It is not final while containers may still run and cost: no world counts on such a worker, but
    it is not settled yet.
    """

    cause: Reason | None
    exit_code: int | None = None
    message: str = ""
    is_final: bool = True

    @property
    def is_interruption(self) -> bool:
        """Whether the platform took the worker away."""
        return self.cause in INTERRUPTIONS

    @property
    def is_failure(self) -> bool:
        """Whether it counts as a failure of the job."""
        return self.cause in FAILURES


def worker_outcomes(job: JobSnapshot, now: datetime | None = None) -> dict[int, WorkerOutcome]:
    """Return the ends of workers that have ended, by id; without `now` a deletion is an end."""
    doubted, settled = _doubted(job), job.status.settled
    found = {
        worker.worker_id: _outcome(
            worker,
            now,
            lost=_why_lost(worker, job, doubted),
            is_settled=worker.worker_id in settled,
            has_failed=worker.worker_id in job.status.failed,
        )
        for worker in job.workers
    }
    return {worker_id: outcome for worker_id, outcome in found.items() if outcome is not None}


def is_rejected(pod: Pod) -> bool:
    """Whether its node rejected it, so that nothing of it was started.

    The kubelet gives a reason in one word: OutOfcpu, UnexpectedAdmissionError, NodeAffinity, or
    Evicted if the node already lacked a resource. A pod that the kubelet ended later has an exit
    code, or is marked as the target of a disruption.
    """
    end = pod.end
    if end is None or end.exit_code is not None or end.words is not None:
        return False
    return pod.disrupted is None and end.pod_reason not in {"", _OWN_DEADLINE}


def in_doubt(job: JobSnapshot) -> frozenset[int]:
    """The workers that must show a sign of life: their node is not ready, or peers miss them.

    Or peers miss another worker on the same node, or their world's group broke, or they should have
    joined it and have not arrived.
    """
    doubted = _doubted(job)
    nodes = {worker.pod.node for worker in job.workers if worker.worker_id in doubted}
    return frozenset(
        w.worker_id for w in job.workers if w.pod.node is not None and w.pod.node in nodes
    )


def missed_by_both(job: JobSnapshot) -> frozenset[int]:
    """The workers that both neighbours in the ring miss.

    With two workers each has one neighbour, so it is unknown which of them is cut off.
    """
    return frozenset(worker_id for worker_id, by in _suspects(job).items() if len(by) > 1)


def _outcome(
    worker: Worker, now: datetime | None, *, lost: str | None, is_settled: bool, has_failed: bool
) -> WorkerOutcome | None:
    if worker.pod.end is not None or worker.pod.is_over:
        is_told_to_end = worker.pod.deleting and not has_failed
        return _end_of(worker.pod, worker.pod.end or PodEnd(), is_told_to_end=is_told_to_end)
    if worker.node is not None and worker.node.gone:
        return WorkerOutcome(Reason.NODE_LOST, message=f"node {worker.node.name} is gone")
    if is_settled:
        # Its pod was created by a write that was believed to be lost.
        return WorkerOutcome(None, message="its number is settled")
    is_buried = _is_buried(worker)
    if lost is not None:
        return WorkerOutcome(Reason.NODE_LOST, message=lost, is_final=is_buried)
    if worker.pod.deleting and not _has_time_left(worker, now):
        cause = _DISRUPTIONS.get(worker.pod.disrupted or "")
        never_ran = worker.pod.node is None
        return WorkerOutcome(cause, message="its pod was deleted", is_final=never_ran or is_buried)
    return None


def _is_buried(worker: Worker) -> bool:
    """Whether a user declared a worker's machine dead, and its kubelet does not contradict.

    `kubectl delete pod --force` is Kubernetes' way to give up a pod whose node does not answer. If
    the node answers, its kubelet ends the pod, and reports that.
    """
    node = worker.node
    return worker.pod.is_forced and node is not None and node.unreachable_at is not None


def _doubted(job: JobSnapshot) -> frozenset[int]:
    """The workers whose silence counts; silence or doubt alone proves nothing."""
    on_bad_nodes = (w.worker_id for w in job.workers if _is_on_bad_node(w))
    doubted = frozenset(_suspects(job)).union(on_bad_nodes, _out_of_touch(job), _awaited(job))
    return frozenset(n for n in doubted if n not in job.status.settled)


def _is_on_bad_node(worker: Worker) -> bool:
    """Whether its node is not ready; a node that is gone cannot give a sign of life.

    Kubernetes keeps the pods of such a node for a minute; their job is not asked in that time.
    """
    return worker.node is not None and not worker.node.ready and not worker.node.gone


def _out_of_touch(job: JobSnapshot) -> tuple[int, ...]:
    """All training workers, if the group of one of them broke: one of the others may be lost.

    A worker that is lost right after a world was entered is missed by no neighbour: none has heard
    a heartbeat from it in that world.
    """
    members, world_number = _who_trains(job)
    reports = (worker.agent.report for worker in job.workers if worker.agent is not None)
    return members if any(report.broken == world_number for report in reports) else ()


def _awaited(job: JobSnapshot) -> Iterator[int]:
    """Yield the warm workers that join a world in process and do not come at once."""
    world = job.status.world
    if not world.is_active or world.entry is Entry.RESTART:
        return
    for worker in job.workers:
        report = worker.agent.report if worker.agent is not None else None
        if worker.worker_id not in world.joining_set or report is None or not report.in_process:
            continue  # a worker that must first start its process is too busy to answer soon
        if report.arrived < world.number:
            yield worker.worker_id


def _has_time_left(worker: Worker, now: datetime | None) -> bool:
    """Whether a pod that is being deleted still trains: then the deletion is a notice."""
    killed_at = worker.pod.killed_at
    if killed_at is None or now is None or worker.agent is None:
        return False
    return now < killed_at


def _why_lost(worker: Worker, job: JobSnapshot, doubted: frozenset[int]) -> str | None:
    """Return why a worker in doubt counts as lost; one that was given up stays lost."""
    if worker.worker_id in job.status.lost:
        return f"the operator gave up {worker.pod.name}"
    if worker.worker_id not in doubted:
        return None
    if _is_silent(worker, job):
        return f"no sign of life from {worker.pod.name}"
    if job.missed_seconds.get(worker.worker_id, 0.0) >= CUT_OFF_SECONDS:
        return f"neither neighbour reaches {worker.pod.name}"
    return None


def _is_silent(worker: Worker, job: JobSnapshot) -> bool:
    agent = worker.agent
    if not _has_come(worker, job) and job.leading_seconds < _time_to_come(job):
        return False
    if agent is None:  # it trained under another leader, and has not reported to this one
        return worker.worker_id in _who_trains(job)[0]
    return agent.heard_seconds > _SILENT_SECONDS


def _has_come(worker: Worker, job: JobSnapshot) -> bool:
    """Whether it has reported since this replica became the leader."""
    return worker.agent is not None and worker.agent.heard_seconds < job.leading_seconds


def _time_to_come(job: JobSnapshot) -> float:
    is_found = any(_has_come(worker, job) for worker in job.workers)
    return FOUND_LEADER_SECONDS if is_found else NEW_LEADER_SECONDS


def _suspects(job: JobSnapshot) -> dict[int, set[int]]:
    """The workers whose heartbeats are missed in the present world, and which workers miss them."""
    members, world_number = _who_trains(job)
    found: dict[int, set[int]] = {}
    for worker in job.workers:
        report = worker.agent.report if worker.agent is not None else None
        if report is None or not report.suspects or report.arrived != world_number:
            continue
        for rank in report.suspects:
            if rank < len(members):
                found.setdefault(members[rank], set()).add(worker.worker_id)
    return found


def _who_trains(job: JobSnapshot) -> tuple[tuple[int, ...], int]:
    """Return the workers that train, by rank, and the number of their world, not a prepared one.

    Once the job has succeeded no worker trains: the others miss a worker that has ended by itself
    for a moment, but it is not lost.
    """
    world = job.status.world
    if job.status.phase is Phase.SUCCEEDED:
        return (), 0
    if world.is_active:
        return world.members, world.number
    return world.state_holders, world.training_number or world.number


def _end_of(pod: Pod, end: PodEnd, *, is_told_to_end: bool) -> WorkerOutcome:
    """Return why a worker ended: the platform's reason, its own message, or the exit code."""
    if end.container_reason == "OOMKilled":
        return WorkerOutcome(
            Reason.OOM_KILLED, end.exit_code, "a container exceeded its memory limit"
        )
    cause, said = _by_the_platform(pod, end), end.message
    if cause is Reason.REJECTED:
        return WorkerOutcome(cause, message=": ".join(filter(None, (end.pod_reason, said))))
    if cause is not None:
        return WorkerOutcome(cause, end.exit_code, said)
    return _own_end(pod, end, is_told_to_end=is_told_to_end)


def _by_the_platform(pod: Pod, end: PodEnd) -> Reason | None:
    if pod.disrupted is not None and pod.disrupted in _DISRUPTIONS:
        return _DISRUPTIONS[pod.disrupted]
    if any(words in end.pod_message for words in _SHUTDOWN):
        return Reason.RECLAIMED
    if end.pod_reason == _PREEMPTING:
        return Reason.PREEMPTED
    if is_rejected(pod):
        return Reason.REJECTED
    is_pressed = end.pod_reason == "Evicted" or pod.disrupted == "TerminationByKubelet"
    return Reason.EVICTED if is_pressed else None


def _own_end(pod: Pod, end: PodEnd, *, is_told_to_end: bool) -> WorkerOutcome:
    words = end.words
    if is_told_to_end:  # whatever it reports
        return WorkerOutcome(
            None, end.exit_code, words.message if words is not None else end.message
        )
    if words is not None and words.reason in {Ending.COMPLETED, Ending.DEPARTED}:
        return WorkerOutcome(None, end.exit_code, words.message)
    if words is not None and words.reason is Ending.PREEMPTED:
        return WorkerOutcome(Reason.RECLAIMED, end.exit_code, words.message)
    # Its own code, whatever happened to other containers; if it was not found, all ended that way.
    if words is None and (end.exit_code == 0 or pod.phase is PodPhase.SUCCEEDED):
        return WorkerOutcome(None, 0)
    code = words.exit_code if words is not None and words.exit_code is not None else end.exit_code
    message = words.message if words is not None else end.message
    if unusable := _why_unusable(end, message):
        return WorkerOutcome(Reason.UNUSABLE_IMAGE, code, unusable)
    return WorkerOutcome(reason_of(message), code, message or f"exit code {code}")


def reason_of(message: str) -> Reason:
    """Return the reason for a failure of a worker's processes, by its message."""
    return Reason.FAULTY_DEVICE if is_of_device(message) else Reason.EXIT_CODE


def _why_unusable(end: PodEnd, message: str) -> str:
    """Return what the image lacks, from its launcher's message; empty for any other end."""
    if end.words is not None:
        return message if end.words.reason is Ending.UNUSABLE else ""
    is_without_shell = _SHELL in message and "no such file or directory" in message.lower()
    return NO_SHELL if end.container_reason == _CANNOT_START and is_without_shell else ""
