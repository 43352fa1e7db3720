import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster.cluster import Cluster
from tests.api_cases import Manifest


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
def server(cluster: Cluster, crds: None) -> Iterator[Server]:
    admin = cluster.admin
    address = urlsplit(admin.server)
    assert address.hostname is not None
    connection = http.client.HTTPSConnection(
        address.hostname, address.port, context=admin.ssl_context(), timeout=30
    )
    yield Server(connection)
    connection.close()
