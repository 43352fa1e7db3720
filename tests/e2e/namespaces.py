"""The namespaces of tests: left one by one, waited for together.

Kubernetes takes ten seconds and more to remove a namespace, whose pods are gone after a few. The
next test needs the pods' room only, so the rest is waited for once, at the end of all tests.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from devcluster.client import Manifest
from tests.e2e import jobs
from tests.e2e.cluster import Cluster
from tests.e2e.kind.machine import SetupError


@dataclass(frozen=True)
class Namespaces:
    """The namespaces that were opened on a cluster."""

    cluster: Cluster
    opened: list[str] = field(default_factory=list)

    def open(self, name: str) -> str:
        """Make a namespace that no run had before, with scripts and a claim; its name."""
        namespace = f"{name}-{time.time_ns() // 1_000_000 % 10**9}"
        self.opened.append(namespace)
        self.cluster.kubectl("apply", "--filename=-", given=jobs.listed(jobs.furniture(namespace)))
        self.cluster.files.make(namespace)
        return namespace

    def leave(self, namespace: str) -> None:
        """Have a namespace deleted, and wait until its pods are gone."""
        self.cluster.kubectl("delete", "namespace", namespace, "--wait=false")
        # None is made any more in a namespace that is being deleted.
        inside = f"--namespace={namespace}"
        self.cluster.kubectl("wait", inside, "--for=delete", "pod", "--all", "--timeout=300s")

    def until_gone(self) -> None:
        """Wait until nothing is left of any; raises `SetupError` with what is, and why."""
        if not self.opened:
            return
        told = ("--ignore-not-found", "--timeout=300s")
        try:
            self.cluster.kubectl("delete", "namespace", *self.opened, *told)
        except SetupError as error:
            shown = ("get", "namespaces", *self.opened, "--ignore-not-found", "--output=json")
            left = json.loads(self.cluster.kubectl(*shown))
            raise SetupError(f"{error}\n{why_left(left.get('items', [left]))}") from error
        self.cluster.files.remove(self.opened)


def why_left(namespaces: Iterable[Manifest]) -> str:
    """Return what Kubernetes says of namespaces that do not go away, a line for each reason."""
    return "\n".join(
        f"{namespace['metadata']['name']}: {condition['message']}"
        for namespace in namespaces
        for condition in namespace.get("status", {}).get("conditions", ())
        if condition["status"] == "True"
    )
