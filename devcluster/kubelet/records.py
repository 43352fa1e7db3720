"""A kubelet's memory of a pod: plain data, from which its status is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from devcluster.kubelet.runtime import Exit, Manifest


def rfc3339(moment: datetime) -> str:
    """Write a time as Kubernetes does, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Waiting:
    """Not started, or waiting to be started again."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Running:
    """Started, and not known to have ended."""

    started_at: datetime


@dataclass(frozen=True)
class Terminated:
    """Ended; times are absent if the kubelet did not see it run or end."""

    exit: Exit
    finished_at: datetime | None = None
    started_at: datetime | None = None
    container_id: str = ""


@dataclass(frozen=True)
class ContainerRecord:
    """One container's present state, and how its previous run ended."""

    state: Waiting | Running | Terminated
    last: Terminated | None = None
    restarts: int = 0
    container_id: str = ""

    @property
    def exit_code(self) -> int | None:
        """The exit code of the newest run that has ended, kept until the next run begins.

        None if no run has ended, or the next one runs.
        """
        if isinstance(self.state, Terminated):
            return self.state.exit.code
        if isinstance(self.state, Waiting) and self.last is not None:
            return self.last.exit.code
        return None


@dataclass(frozen=True)
class Verdict:
    """The kubelet itself ended the pod: the words of its status, instead of the containers'."""

    reason: str
    message: str
    is_disruption: bool = False  # adds the DisruptionTarget condition


# Copied from the kubelet, because controllers match these words.
NODE_SHUTDOWN = Verdict(
    "Terminated", "Pod was terminated in response to imminent node shutdown.", is_disruption=True
)
REJECTED_IN_SHUTDOWN = Verdict("NodeShutdown", "Pod was rejected as the node is shutting down.")
DEADLINE_EXCEEDED = Verdict(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)
# What a kubelet writes for a container that ran and that it cannot find any more.
LOST = Exit(
    137,
    "ContainerStatusUnknown",
    "The container could not be located when the pod was terminated",
)


@dataclass(frozen=True)
class PodRecord:
    """All that a pod's status is made of, apart from its manifest."""

    containers: Mapping[str, ContainerRecord]  # of the init containers too
    start_time: datetime
    host_ip: str
    pod_ip: str = ""  # empty until its sandbox exists
    is_over: bool = False  # nothing runs, and nothing will be started again
    verdict: Verdict | None = None


def is_sidecar(container: Manifest) -> bool:
    """True for an init container that continues to run beside the others."""
    return container.get("restartPolicy") == "Always"


def first_records(pod: Manifest) -> dict[str, ContainerRecord]:
    """Return the first records of a pod that is new to this kubelet.

    If its status says that a container ran, it ran on another kubelet (or on this one, before a
    restart of the machine): such a container is lost.
    """
    status = pod.get("status", {})
    stored = {
        s["name"]: s
        for s in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    }
    inits = pod["spec"].get("initContainers", ())
    reason = "PodInitializing" if inits else "ContainerCreating"
    return {
        c["name"]: _first_record(stored.get(c["name"], {}), reason)
        for c in (*inits, *pod["spec"]["containers"])
    }


def _first_record(stored: Manifest, reason: str) -> ContainerRecord:
    state = stored.get("state", {})
    restarts = stored.get("restartCount", 0)
    container_id = stored.get("containerID", "")
    if end := state.get("terminated"):
        exit_ = Exit(end["exitCode"], end.get("reason", ""), end.get("message", ""))
        ended = Terminated(
            exit_, _parsed(end.get("finishedAt")), _parsed(end.get("startedAt")), container_id
        )
        return ContainerRecord(ended, None, restarts, container_id)
    if running := state.get("running"):
        began = _parsed(running.get("startedAt"))
        return ContainerRecord(Terminated(LOST, None, began, container_id), None, restarts)
    return ContainerRecord(Waiting(reason), None, restarts)


def _parsed(moment: str | None) -> datetime | None:
    return datetime.fromisoformat(moment) if moment else None
