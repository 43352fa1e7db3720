"""Computes a pod's status, and the patch that writes it, as a kubelet does. Pure."""

from dataclasses import dataclass
from datetime import datetime

from devcluster.kubelet.records import (
    ContainerRecord,
    PodRecord,
    Running,
    Terminated,
    Verdict,
    Waiting,
    is_sidecar,
    rfc3339,
)
from devcluster.kubelet.runtime import Manifest

TERMINATION_MESSAGE_BYTES = 4096


@dataclass(frozen=True)
class Said:
    """A condition without its times."""

    holds: bool
    reason: str = ""
    message: str = ""


def pod_status(pod: Manifest, record: PodRecord, now: datetime) -> Manifest:
    """Return the part of `status` that a kubelet owns."""
    phase = pod_phase(pod, record)
    status: Manifest = {
        "phase": phase,
        "conditions": _conditions(pod, record, phase, now),
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "startTime": rfc3339(record.start_time),
        "containerStatuses": _container_statuses(pod["spec"]["containers"], record),
    }
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    if init := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = _container_statuses(init, record)
    if record.pod_ip:
        status |= {"podIP": record.pod_ip, "podIPs": [{"ip": record.pod_ip}]}
    if record.verdict:
        status |= {"reason": record.verdict.reason, "message": record.verdict.message}
    return status


def status_patch(pod: Manifest, status: Manifest) -> Manifest:
    """Return the strategic merge patch that brings the pod's status to `status`.

    It names the pod's UID, so that it cannot change a later pod of the same name.
    """
    before = {c["type"]: c for c in pod.get("status", {}).get("conditions", ())}
    conditions = [
        dict.fromkeys(before.get(c["type"], {}).keys() - c.keys()) | c
        for c in status.get("conditions", ())
    ]
    body = status | ({"conditions": conditions} if conditions else {})
    for addresses in ("podIPs", "hostIPs"):
        if addresses in body:
            # Otherwise they would be merged with those of an earlier sandbox.
            body[addresses] = [*body[addresses], {"$patch": "replace"}]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": body}


def rejected_status(verdict: Verdict, now: datetime) -> Manifest:
    """Return the status of a pod that the kubelet refuses to start."""
    return {
        "phase": "Failed",
        "reason": verdict.reason,
        "message": verdict.message,
        "startTime": rfc3339(now),
    }


def pod_phase(pod: Manifest, record: PodRecord) -> str:
    """Return the phase, by the rules of the kubelet's `getPhase`."""
    if record.is_over:
        if record.verdict:
            return "Failed"
        ran = [*plain_inits(pod), *pod["spec"]["containers"]]
        return "Succeeded" if all(_of(record, c).exit_code == 0 for c in ran) else "Failed"
    if not_initialized(pod, record):
        return "Pending"
    records = [_of(record, c) for c in pod["spec"]["containers"]]
    return "Running" if all(_has_started(r) for r in records) else "Pending"


def plain_inits(pod: Manifest) -> list[Manifest]:
    """Return the init containers that must end before the others start."""
    return [c for c in pod["spec"].get("initContainers", ()) if not is_sidecar(c)]


def not_initialized(pod: Manifest, record: PodRecord) -> list[str]:
    """Return the init containers that the others still wait for."""
    if any(_has_started(_of(record, c)) for c in pod["spec"]["containers"]):
        return []
    return [
        c["name"]
        for c in pod["spec"].get("initContainers", ())
        if not (_has_started(_of(record, c)) if is_sidecar(c) else _of(record, c).exit_code == 0)
    ]


def cut_message(message: str) -> str:
    """Cut a termination message to the kubelet's limit."""
    raw = message.encode()
    if len(raw) <= TERMINATION_MESSAGE_BYTES:
        return message
    return raw[:TERMINATION_MESSAGE_BYTES].decode(errors="ignore")


def _of(record: PodRecord, container: Manifest) -> ContainerRecord:
    return record.containers[container["name"]]


def _has_started(record: ContainerRecord) -> bool:
    return record.last is not None or not isinstance(record.state, Waiting)


def _conditions(pod: Manifest, record: PodRecord, phase: str, now: datetime) -> list[Manifest]:
    wanted = {
        "PodReadyToStartContainers": Said(bool(record.pod_ip) and not record.is_over),
        "Initialized": _initialized(pod, record, phase),
        "Ready": (ready := _ready(pod, record, phase)),
        "ContainersReady": ready,
    }
    if record.verdict and record.verdict.is_disruption:
        wanted["DisruptionTarget"] = Said(True, "TerminationByKubelet", record.verdict.message)
    before = {c["type"]: c for c in pod.get("status", {}).get("conditions", ())}
    generation = pod["metadata"].get("generation")
    return [_condition(k, said, before.get(k), generation, now) for k, said in wanted.items()]


def _initialized(pod: Manifest, record: PodRecord, phase: str) -> Said:
    if phase == "Succeeded":
        return Said(True, "PodCompleted")
    if waiting := not_initialized(pod, record):
        words = f"containers with incomplete status: [{' '.join(waiting)}]"
        return Said(False, "ContainersNotInitialized", words)
    return Said(True)


def _ready(pod: Manifest, record: PodRecord, phase: str) -> Said:
    if phase == "Succeeded":
        return Said(False, "PodCompleted")
    if phase == "Failed":
        return Said(False, "PodFailed")
    names = [c["name"] for c in pod["spec"]["containers"]]
    unready = [n for n in names if not isinstance(record.containers[n].state, Running)]
    if unready:
        words = f"containers with unready status: [{' '.join(unready)}]"
        return Said(False, "ContainersNotReady", words)
    return Said(True)


def _condition(
    kind: str, said: Said, before: Manifest | None, generation: int | None, now: datetime
) -> Manifest:
    status = str(said.holds)
    kept = before is not None and before["status"] == status and before.get("lastTransitionTime")
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": kept or rfc3339(now),
        **({"reason": said.reason} if said.reason else {}),
        **({"message": said.message} if said.message else {}),
        **({"observedGeneration": generation} if generation else {}),
    }


def _container_statuses(containers: list[Manifest], record: PodRecord) -> list[Manifest]:
    return [_container_status(c, _of(record, c)) for c in containers]


def _container_status(container: Manifest, record: ContainerRecord) -> Manifest:
    runs = isinstance(record.state, Running)
    image = container.get("image", "")
    status = {
        "name": container["name"],
        "state": _state(record.state),
        "lastState": _state(record.last) if record.last else {},
        "ready": runs,
        "started": runs,
        "restartCount": record.restarts,
        "image": image,
        "imageID": f"devcluster://{image}" if record.container_id else "",
    }
    return status | ({"containerID": record.container_id} if record.container_id else {})


def _state(state: Waiting | Running | Terminated) -> Manifest:
    if isinstance(state, Running):
        return {"running": {"startedAt": rfc3339(state.started_at)}}
    if isinstance(state, Waiting):
        message = {"message": state.message} if state.message else {}
        return {"waiting": {"reason": state.reason} | message}
    end = state.exit
    ended: Manifest = {
        "exitCode": end.code,
        "reason": end.reason or ("Error" if end.code else "Completed"),
        # Absent times are written as null, as Go's zero time is.
        "startedAt": rfc3339(state.started_at) if state.started_at else None,
        "finishedAt": rfc3339(state.finished_at) if state.finished_at else None,
    }
    if end.message:
        ended["message"] = cut_message(end.message)
    if end.signal:
        ended["signal"] = end.signal
    if state.container_id:
        ended["containerID"] = state.container_id
    return {"terminated": ended}
