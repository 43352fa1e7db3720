import http.client
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from devcluster.cluster import Cluster
from tests.integration.asking import Answer, ask, connect
from tests.support.api.manifest_cases import Manifest


@dataclass(frozen=True)
class Server:
    """One kept-alive connection: thousands of manifests in the time of a few kubectl calls."""

    connection: http.client.HTTPSConnection

    def try_to_create(self, manifest: Manifest) -> Answer:
        """Ask whether the manifest would be accepted, unknown fields being an error."""
        path = f"{_path(manifest)}?dryRun=All&fieldValidation=Strict"
        return ask(self.connection, "POST", path, manifest)

    def create(self, manifest: Manifest) -> Manifest:
        path = f"{_path(manifest)}?fieldValidation=Strict"
        answer = ask(self.connection, "POST", path, manifest)
        assert answer.accepted, answer.message
        return answer.body

    def replace(self, manifest: Manifest, subresource: str = "") -> Answer:
        path = f"{_path(manifest)}/{manifest['metadata']['name']}{subresource}"
        return ask(self.connection, "PUT", f"{path}?fieldValidation=Strict", manifest)


def _path(manifest: Manifest) -> str:
    plural = f"{manifest['kind'].lower()}s"
    scope = "" if plural == "capacitypools" else "namespaces/default/"
    return f"/apis/spotrun.dev/v1alpha1/{scope}{plural}"


@pytest.fixture(scope="session")
def server(cluster: Cluster, crds: None) -> Iterator[Server]:
    with closing(connect(cluster)) as connection:
        yield Server(connection)
