"""The shipped manifests, and an API server to whom one can speak as anybody."""

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Cluster
from tests.integration.asking import Answer, ask
from tests.support.api.manifest_cases import Manifest

FOLDER = Path(__file__).parents[3] / "manifests"
OPERATOR = "system:serviceaccount:spotrun-system:spotrun"
GUARD = "spotrun-trainingjob-guard"


def shipped(file: str) -> list[dict[str, Any]]:
    """The documents of one file."""
    return [part for part in yaml.safe_load_all((FOLDER / file).read_text()) if part]


def only(documents: Iterable[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one document of this kind and name."""
    (found,) = (d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name)
    return found


def apply(cluster: Cluster, *documents: dict[str, Any]) -> None:
    """Make them so."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=body)


def namespace(name: str, **labels: str) -> dict[str, Any]:
    """A namespace to apply."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


def grant(user: str, *rules: dict[str, Any]) -> list[dict[str, Any]]:
    """Let a user do something in every namespace."""
    name, api = f"test-{user}", "rbac.authorization.k8s.io"
    role = {"apiGroup": api, "kind": "ClusterRole", "name": name}
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        },
    ]


def rule(group: str, resources: str, verbs: str, *names: str) -> dict[str, Any]:
    """One rule of a role; resources and verbs are separated by spaces."""
    limit = {"resourceNames": list(names)} if names else {}
    return {
        "apiGroups": [group],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **limit,
    }


def until(holds: Callable[[], bool], what: str, timeout_seconds: float = 30) -> None:
    """Wait for what the API server learns from its own watches."""
    end = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < end, f"not within {timeout_seconds} s: {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Server:
    """The API server for an admin who speaks for others, faster than kubectl."""

    host: str
    port: int
    tls: ssl.SSLContext

    def ask(
        self, user: str, verb: str, path: str, body: Manifest | None = None, kind: str = "json"
    ) -> Answer:
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=30)
        with contextlib.closing(connection):
            return ask(connection, verb, path, body, kind=kind, Impersonate_User=user)

    def may(self, user: str, verb: str, **what: str) -> bool:
        """Whether a user may, as `kubectl auth can-i` asks; `what` as in resourceAttributes."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, **what}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(self.ask(user, "POST", path, body).body["status"]["allowed"])

    def try_to_create(self, user: str, where: str, job: Manifest) -> Answer:
        """Ask whether a TrainingJob, or a TuningJob, would be accepted."""
        path = jobs(where, f"{job['kind'].lower()}s")
        return self.ask(user, "POST", f"{path}?dryRun=All&fieldValidation=Strict", job)

    def try_to_change(self, user: str, where: str, name: str, patch: Manifest) -> Answer:
        """Ask whether a merge patch would be accepted; of a whole TrainingJob its spec counts."""
        path = f"{jobs(where)}/{name}?dryRun=All&fieldValidation=Strict"
        body = {"spec": patch["spec"]} if "spec" in patch else patch
        return self.ask(user, "PATCH", path, body, "merge-patch+json")


def jobs(where: str, plural: str = "trainingjobs") -> str:
    """The path of a namespace's TrainingJobs."""
    return f"/apis/spotrun.dev/v1alpha1/namespaces/{where}/{plural}"
