"""The interface by which the tests of the whole use a cluster, whoever started it."""

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
        """The kubeconfig of its admin."""

    @property
    def kubectl_command(self) -> tuple[str | Path, ...]:
        """kubectl, told to speak to this cluster."""

    @property
    def progress(self) -> Progress:
        """The function that tells people what is going on."""

    @property
    def files(self) -> Files:
        """The place where jobs write what the tests read."""

    @property
    def placement(self) -> Manifest:
        """The part of a job's spec on the nodes for its workers."""

    @property
    def operator_values(self) -> tuple[str, ...]:
        """The arguments of Helm on the nodes for the operator."""

    @property
    def patience_seconds(self) -> float:
        """The time that a job may take to what a test waits for next."""

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl against it; raises `SetupError`."""

    def up(self) -> dict[str, str]:
        """Make it ready to install the operator; the names of our images there, by purpose."""

    def down(self) -> None:
        """Remove all that the tests brought here."""
