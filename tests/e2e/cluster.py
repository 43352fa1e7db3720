"""What the tests of the whole ask of a cluster, whoever started it."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from devcluster.client import Manifest
from tests.e2e.files import Files

Progress = Callable[[str], None]


class Cluster(Protocol):
    """A cluster to install the operator in and to run jobs on."""

    @property
    def kubeconfig(self) -> Path:
        """How its admin reaches it."""

    @property
    def kubectl_command(self) -> tuple[str | Path, ...]:
        """kubectl, told to speak to this cluster."""

    @property
    def progress(self) -> Progress:
        """Where to tell people what is going on."""

    @property
    def files(self) -> Files:
        """Where jobs write what the tests read."""

    @property
    def placement(self) -> Manifest:
        """What a job says of the nodes for its workers."""

    @property
    def operator_values(self) -> tuple[str, ...]:
        """What Helm is told of the nodes for the operator."""

    @property
    def patience_seconds(self) -> float:
        """How long a job may take to what a test waits for next."""

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl against it; raises `SetupError`."""

    def up(self) -> dict[str, str]:
        """Make it ready to install the operator; the names of our images there, by purpose."""

    def down(self) -> None:
        """Remove all that the tests brought here."""
