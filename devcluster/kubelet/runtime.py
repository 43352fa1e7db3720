"""The interface through which a kubelet runs containers, as scripts or as real processes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

Manifest = dict[str, Any]
"""A Kubernetes object as decoded JSON."""


@dataclass(frozen=True)
class Exit:
    """The end of a container, in the words of `containerStatuses[].state.terminated`."""

    code: int
    reason: str = ""  # default: Completed for 0, Error otherwise; OOMKilled and others are given
    message: str = ""  # the termination message, cut at 4,096 bytes by the kubelet
    signal: int = 0


class StartError(Exception):
    """A pod or container cannot start (yet): the container waits with this reason and message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason  # CreateContainerConfigError, ErrImagePull, ContainerCannotRun, ...
        self.message = message


class Container(Protocol):
    """One started container."""

    async def wait(self) -> Exit:
        """Return when it has ended; any number of callers may wait."""

    def terminate(self) -> None:
        """Ask it to end (SIGTERM to its main process)."""

    def kill(self) -> None:
        """End it and everything it started, now."""


class Sandbox(Protocol):
    """A pod's place to run: its address, volumes and logs."""

    pod_ip: str

    async def start(self, container: Manifest, restarts: int) -> Container:
        """Start one container of the pod's spec; raises StartError."""

    def logs(self, container: str, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        """The container's output so far and, with `follow`, until it ends."""

    async def remove(self) -> None:
        """End what still runs and give back address, volumes and files."""


class Runtime(Protocol):
    """Makes sandboxes on one node."""

    async def sandbox(self, pod: Manifest, node: Manifest) -> Sandbox:
        """Prepare the pod's needs before its first container; raises StartError."""
