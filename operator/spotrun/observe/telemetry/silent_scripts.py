"""Jobs whose workers report no steps, and other facts by which to size them. Pure.

A script that does not train through `Run` reports nothing. If its job is in mode Auto, only the CPU
and memory of its pods are left to size it by.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from spotrun.api.spec.workers import ScalingMode, TargetResource
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import PodMetricsObject, PodObject
from spotrun.observe.telemetry.pod_metrics import allowance, utilization
from spotrun.policies.scaling.utilization.gauges import targets
from spotrun.state.snapshot import ENOUGH_WINDOWS, JobSnapshot, Worker
from spotrun.state.view import FINISHED
from spotrun.state.world_members import has_arrived, training, world_number
from spotrun.wire import Utilization

_KEPT_SAMPLES = 5


def reports_no_steps(job: JobSnapshot) -> bool:
    """Whether a world trains whose size the operator chooses, and no script of it reports steps."""
    if job.spec.scaling_mode is not ScalingMode.AUTO or job.status.phase in FINISHED:
        return False
    members, present = training(job.status), world_number(job.status)
    known = {worker.worker_id: worker for worker in job.workers}
    return bool(members) and all(n in known and _is_silent(known[n], present) for n in members)


def _is_silent(worker: Worker, present: int) -> bool:
    report = worker.agent.report if worker.agent is not None else None
    if report is None or not has_arrived(worker, present):
        return False
    return report.progress is None and not report.in_process


def incomparable(job: JobSnapshot, pods: Iterable[PodObject]) -> str:
    """Return why the pods' usage fits none of the job's targets; empty if it fits one."""
    resources = [target.resource for target in targets(job)]
    if set(resources) == {TargetResource.GPU}:
        return "metrics.k8s.io does not measure GPUs: give a target for CPU or Memory"
    whole = [allowance(pod) for pod in pods]
    if not whole or any(_part(one, resource) > 0 for one in whole for resource in resources):
        return ""
    return (
        "the container that trains has neither a limit nor a request for a resource with a "
        "target, so its usage cannot be compared with the target: give it a request or a limit"
    )


def _part(whole: Resources, resource: TargetResource) -> float:
    parts = {TargetResource.CPU: whole.cpu, TargetResource.MEMORY: whole.memory}
    return float(parts.get(resource, 0))


@dataclass(frozen=True)
class Sample:
    """The usage of a pod at some time."""

    timestamp: str  # of the measurement: two samples with the same one are the same
    used: Utilization


@dataclass
class SilentJob:
    """A job without reports, in its present world; times are on the monotonic clock."""

    uid: str
    world_number: int
    settled_at: float  # before that, nothing is concluded
    ask_at: float
    incomparable: str = ""  # why asking would not help
    heard_at: float = float("-inf")
    samples: dict[str, deque[Sample]] = field(default_factory=dict)  # by the pod's UID

    def used(self, worker: Worker) -> Utilization | None:
        """Return the medians of a worker's last samples; None before there are enough."""
        samples = self.samples.get(worker.pod.uid, ())
        if len(samples) < ENOUGH_WINDOWS:
            return None
        return Utilization(
            cpu=_median(sample.used.cpu for sample in samples),
            memory=_median(sample.used.memory for sample in samples),
        )

    def take(
        self, measured: Iterable[PodMetricsObject], pods: Iterable[PodObject], now: float
    ) -> None:
        """Store an answer; the usage of a pod that is not in it becomes unknown."""
        by_name = {one.metadata.name: one for one in measured}
        before, self.samples, self.heard_at = self.samples, {}, now
        for pod in pods:
            one, uid = by_name.get(pod.metadata.name), pod.metadata.uid
            if one is None:
                continue
            known = before.get(uid, deque[Sample](maxlen=_KEPT_SAMPLES))
            if not known or known[-1].timestamp != one.timestamp:
                known.append(Sample(one.timestamp, utilization(pod, one)))
            self.samples[uid] = known


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
