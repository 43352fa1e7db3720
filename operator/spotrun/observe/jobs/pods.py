"""A pod as a decision sees it. Pure."""

from datetime import datetime

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import Amount
from spotrun.api.names import (
    FINALIZER_METERED,
    LABEL_CAPACITY,
    LABEL_JOB_UID,
    LABEL_LENT,
    LABEL_REPLICA,
    LABEL_SLOT,
    LABEL_TEMPLATE,
)
from spotrun.money.units import Usd
from spotrun.observe.containers import end_is_guessed, ended_at, trainer_end
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.messages import bounded
from spotrun.observe.resources import requests_of
from spotrun.state.names import worker_id_of
from spotrun.state.snapshot import Pod, PodEnd, PodPhase
from spotrun.wire import one_line, read_last_words

_CAPACITIES = {capacity.value: capacity for capacity in Capacity}
_PHASES = {phase.value: phase for phase in PodPhase}
_ENDED = {PodPhase.SUCCEEDED, PodPhase.FAILED}

_SLOT_DIGITS = 4  # of perReplica, which is at most 1024
_WORKER_ID_DIGITS = 10
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})
_NORMAL = frozenset({"", "ContainerCreating", "PodInitializing"})


def worker_id_in(pod: PodObject, job: str, uid: str, given_out: int) -> int | None:
    """Return the worker id of a job's worker; None for a pod that only looks like one.

    A user who may create pods can give them our labels, our owner and a name like ours. But worker
    ids are given out in the job's status, which only the operator writes, and each pod is created
    right after; a pod that took the name earlier is detected when ours is created.
    """
    meta = pod.metadata
    if meta.labels.get(LABEL_JOB_UID) != uid or meta.owner_uid != uid:
        return None
    worker_id = worker_id_of(meta.name, job, uid)
    return worker_id if worker_id is not None and worker_id < given_out else None


def pod_facts(pod: PodObject, worker_id: int) -> Pod:
    """Return the facts about a worker's pod."""
    meta, status = pod.metadata, pod.status
    return Pod(
        worker_id=worker_id,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        template=meta.labels.get(LABEL_TEMPLATE, ""),
        phase=_phase(status.phase),
        node=pod.spec.node_name or None,
        address=status.pod_ip or None,
        deleting=meta.deletion_timestamp is not None,
        # The API server has already added the grace period to this time.
        killed_at=_moment(meta.deletion_timestamp),
        is_forced=meta.deletion_grace_period_seconds == 0,
        metered=FINALIZER_METERED in meta.finalizers,
        disrupted=_disrupted(pod),
        end=_end(pod),
        unschedulable=_unschedulable(pod),
        is_nominated=bool(pod.status.nominated_node_name),
        stuck=_stuck(pod),
        created_at=_moment(meta.creation_timestamp),
        scheduled_at=_since(pod, "PodScheduled"),
        ended_at=ended_at(pod),
        end_is_guessed=end_is_guessed(pod),
        disrupted_at=_since(pod, "DisruptionTarget"),
        requests=requests_of(pod),
        asked=_CAPACITIES.get(meta.labels.get(LABEL_CAPACITY, "")),
        pools=tuple(name for name in meta.annotations.pools.split(",") if name),
        zone=meta.annotations.zone,
        avoids=tuple(name for name in meta.annotations.avoids.split(",") if name),
        injected=meta.annotations.injected,
        slot=_number(meta.labels.get(LABEL_SLOT, ""), _SLOT_DIGITS) or 0,
        replica=_number(meta.labels.get(LABEL_REPLICA, ""), _WORKER_ID_DIGITS),
        lent=meta.labels.get(LABEL_LENT) == "true",
        interruption_usd=_usd(meta.annotations.interruption_usd),
    )


def _number(text: str, digits: int) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= digits else None


def _usd(text: str) -> Usd | None:
    """Read an amount that any user may have changed; None if it is not an amount."""
    try:
        return Usd.of(Amount(text)) if text else None
    except ValueError:
        return None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _since(pod: PodObject, kind: str) -> datetime | None:
    """Return the time since which a condition of that type is true."""
    found = (c for c in pod.status.conditions if c.type == kind and c.status == "True")
    return next((_moment(c.last_transition_time) for c in found), None)


def _phase(text: str) -> PodPhase:
    # "Unknown" is a running pod whose node is silent; this does not decide whether it is lost.
    return _PHASES.get(text, PodPhase.RUNNING)


def _disrupted(pod: PodObject) -> str | None:
    return next(
        (c.reason for c in pod.status.conditions if _is_disruption(c.type, c.status)),
        None,
    )


def has_ended(pod: PodObject) -> bool:
    """Whether a pod has ended, or is being deleted."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in _ENDED


def _is_disruption(kind: str, status: str) -> bool:
    return kind == "DisruptionTarget" and status == "True"


def _end(pod: PodObject) -> PodEnd | None:
    status = pod.status
    ended = trainer_end(pod)
    if ended is None and status.phase not in _ENDED:
        return None
    message = one_line(status.message or _why_disrupted(pod))
    if ended is None:
        return PodEnd(
            pod_reason=status.reason,
            pod_message=message,
            container_message=one_line(_failed_init(pod)),
        )
    last_words, said = read_last_words(ended.message), ""
    if last_words is None and ended.message:
        # For example StartError: no program of ours ran that could report anything.
        said = one_line(f"{ended.reason}: {ended.message.strip()}")
    return PodEnd(
        exit_code=ended.exit_code,
        container_reason=ended.reason,
        pod_reason=status.reason,
        pod_message=message,
        container_message=said,
        words=last_words,
    )


def _unschedulable(pod: PodObject) -> str:
    found = (
        c.message
        for c in pod.status.conditions
        if c.type == "PodScheduled" and c.status == "False" and c.reason == "Unschedulable"
    )
    return bounded(next(found, ""))


def _stuck(pod: PodObject) -> str:
    """Return why a container cannot be started, in the same words for every attempt and pause.

    Each change of a message is a write, and the attempts continue until somebody fixes the cause.
    """
    status = pod.status
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is None or waiting.reason in _NORMAL:
            continue
        if waiting.reason not in _PULLING:
            return bounded(f"{waiting.reason}: {waiting.message}".removesuffix(": "))
        _, is_given, cause = waiting.message.rpartition("ErrImagePull: ")
        cause = cause if is_given or waiting.reason == "ErrImagePull" else ""
        words = f"image {container.image or 'of ' + container.name} cannot be pulled"
        return bounded(f"{words}: {cause}" if cause else words)
    return ""


def _why_disrupted(pod: PodObject) -> str:
    found = (c.message for c in pod.status.conditions if _is_disruption(c.type, c.status))
    return next(found, "")


def _failed_init(pod: PodObject) -> str:
    """Return why the trainer was never started, if an init container is the cause."""
    for container in pod.status.init_container_statuses:
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            words = f": {ended.message}" if ended.message else ""
            return f"init container {container.name} ended with {ended.exit_code}{words}"
    return ""
