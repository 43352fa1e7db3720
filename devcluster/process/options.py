"""The options of process nodes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Options:
    """The choices of one runtime; the first four come from the cluster."""

    root: Path
    """The folder in which each pod gets a directory; its path is short, because unix sockets are
    below it."""

    memory: Path
    """The folder of emptyDirs of medium Memory, which is created: in /dev/shm if that exists. If
    its parent is not writable, such volumes are below `root`."""

    marker: str
    """A mark that every process carries, so that it can be found and ended."""

    server: str
    """The URL of the API server."""

    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The entrypoints of images, for containers without a `command`."""

    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    """The folders that are searched for programs; by default those of this process."""

    gpus: bool = False
    """Whether pods see this machine's real GPUs."""

    def pod_memory(self, pod: str) -> Path:
        """Return the folder of the volumes in memory of one pod."""
        usable = os.access(self.memory.parent, os.W_OK)
        return self.memory / pod if usable else self.root / pod / "memory"

    def service(self) -> dict[str, str]:
        """Return the variables that lead a pod to the API server."""
        address = urlsplit(self.server)
        port = str(address.port or 443)
        return {
            "KUBERNETES_SERVICE_HOST": address.hostname or "",
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }
