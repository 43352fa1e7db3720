import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster.cluster import Cluster
from tests.api_cases import Manifest

ROOT = Path(__file__).parents[3]
_ESTABLISHED = '{.status.conditions[?(@.type=="Established")].status}'
CRDS = ("trainingjobs.spotrun.dev", "capacitypools.spotrun.dev")


@dataclass(frozen=True)
class Answer:
    """What the API server says to a request."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        assert self.status in (200, 201, 400, 422), self.body
        return self.status in (200, 201)

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(frozen=True)
class Server:
    """One kept-alive connection: thousands of manifests in the time of a few kubectl calls."""

    connection: http.client.HTTPSConnection

    def ask(self, verb: str, path: str, body: Manifest | None = None) -> Answer:
        headers = {"Content-Type": "application/json"}
        self.connection.request(verb, path, json.dumps(body) if body else None, headers)
        response = self.connection.getresponse()
        return Answer(response.status, json.loads(response.read()))

    def try_to_create(self, manifest: Manifest) -> Answer:
        """Ask whether the manifest would be accepted, unknown fields being an error."""
        return self.ask("POST", f"{_path(manifest)}?dryRun=All&fieldValidation=Strict", manifest)

    def create(self, manifest: Manifest) -> Manifest:
        answer = self.ask("POST", f"{_path(manifest)}?fieldValidation=Strict", manifest)
        assert answer.accepted, answer.message
        return answer.body

    def replace(self, manifest: Manifest, subresource: str = "") -> Answer:
        path = f"{_path(manifest)}/{manifest['metadata']['name']}{subresource}"
        return self.ask("PUT", f"{path}?fieldValidation=Strict", manifest)


def _path(manifest: Manifest) -> str:
    plural = f"{manifest['kind'].lower()}s"
    scope = "" if plural == "capacitypools" else "namespaces/default/"
    return f"/apis/spotrun.dev/v1alpha1/{scope}{plural}"


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """The CRDs, applied and served."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    for name in CRDS:
        # Not `kubectl wait`: it fails on a CRD that has no conditions yet.
        _wait_until(cluster, "True", "get", "crd", name, "-o", f"jsonpath={_ESTABLISHED}")
        # Discovery and the schema that kubectl reads follow a little later.
        _wait_until(cluster, "FIELDS", "explain", name)


def _wait_until(cluster: Cluster, said: str, *arguments: str) -> None:
    end = time.monotonic() + 60
    while said not in cluster.kubectl(*arguments, check=False).stdout:
        assert time.monotonic() < end, f"kubectl {' '.join(arguments)} never said {said}"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def server(cluster: Cluster, crds: None) -> Iterator[Server]:
    admin = cluster.admin
    address = urlsplit(admin.server)
    assert address.hostname is not None
    connection = http.client.HTTPSConnection(
        address.hostname, address.port, context=admin.ssl_context(), timeout=30
    )
    yield Server(connection)
    connection.close()
