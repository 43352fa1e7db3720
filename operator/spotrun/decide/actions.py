"""What can be done to the cluster, each with its reason."""

from dataclasses import dataclass

from spotrun.api.names import Reason
from spotrun.api.status import TrainingJobStatus


@dataclass(frozen=True)
class Create:
    """Make the worker of this number; its name is a function of job and number."""

    serial: int
    avoid_nodes: tuple[str, ...] = ()  # that this job's failures were blamed on


@dataclass(frozen=True)
class Remove:
    """Delete a worker's pod, if it is still this one."""

    serial: int
    uid: str
    reason: Reason
    why: str


@dataclass(frozen=True)
class Release:
    """Take our finalizer off a pod whose number is settled."""

    serial: int
    uid: str


@dataclass(frozen=True)
class DeleteJob:
    """Delete a finished job whose time is over."""

    why: str


Action = Create | Remove | Release | DeleteJob


@dataclass(frozen=True)
class Announce:
    """An event on the job, for people."""

    reason: Reason
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class Decision:
    """The next status, and what may be done as soon as it is stored."""

    status: TrainingJobStatus
    actions: tuple[Action, ...] = ()
    announcements: tuple[Announce, ...] = ()
    again_seconds: float = float("inf")  # look again then, even if nothing happens
