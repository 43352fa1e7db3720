"""Objects that were stored before the definition changed are read as they were written.

The API server leaves out what its definition does not declare, of stored objects too: so this is
asked of a real one, with a copy of the definition, for others use the job's own meanwhile.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import repeat
from typing import Any
from uuid import uuid4

import pytest

from devcluster.client import Manifest
from spotrun.api.crd import crd
from spotrun.api.names import TRAINING_JOB
from spotrun.api.status import TrainingJobStatus
from spotrun.state.codec import read, write
from spotrun.state.job_state import JobState
from tests.integration.api.conftest import Server
from tests.integration.asking import Answer, ask
from tests.support.api.manifest_cases import job
from tests.support.api.old_status import as_before, definition_before
from tests.unit.api.test_old_names import PREPARED, TRAINS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "merge-patch+json"
RESTARTS = {
    "lastGeneration": 3,
    "newcomers": {
        "failures": 1,
        "retryAt": "2026-03-01T08:00:00Z",
        "held": [{"workers": "5", "generation": 3}],
    },
}

SUMS = {"generation": 3, "checkpointGeneration": 2}


class Copied:
    """A definition under a group of its own, and one object of it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.group = f"g{uuid4().hex[:8]}.example.com"
        self.name = f"trainingjobs.{self.group}"
        self.objects = f"/apis/{self.group}/v1alpha1/namespaces/default/trainingjobs"

    def definition(self, original: Manifest) -> Manifest:
        """Return the definition, of this group."""
        copied = deepcopy(original)
        copied["metadata"]["name"] = self.name
        copied["spec"]["group"] = self.group
        # The short names and categories belong to the original.
        for name in ("shortNames", "categories"):
            del copied["spec"]["names"][name]
        return copied

    def ask(self, verb: str, path: str, body: Any = None, kind: str = "json") -> Answer:
        """Send a request."""
        return ask(self._server.connection, verb, path, body, kind=kind)

    def until_known(self, field: str) -> None:
        """Wait until a status of this name's world is one that the API server declares."""
        for _ in repeat(None):
            answer = self.ask("GET", f"/openapi/v3/apis/{self.group}/v1alpha1")
            worlds = [
                one["properties"]["status"]["properties"]["world"]["properties"]
                for name, one in answer.body.get("components", {}).get("schemas", {}).items()
                if name.endswith(".TrainingJob")
            ]
            if worlds and field in worlds[0]:
                break


@pytest.fixture
def copied(server: Server) -> Iterator[Copied]:
    found = Copied(server)
    made = found.ask("POST", DEFINITIONS, found.definition(definition_before()))
    assert made.accepted, made.message
    yield found
    found.ask("DELETE", f"{DEFINITIONS}/{found.name}")


def state_of(status: Manifest) -> JobState:
    """Read a status as the operator does."""
    text = json.dumps(status)
    return read(TrainingJobStatus.model_validate_json(text, by_alias=True, by_name=False))


@pytest.mark.parametrize("world", [TRAINS, PREPARED], ids=["trains", "prepared"])
def test_what_an_old_operator_has_stored_outlives_the_new_definition(
    copied: Copied, world: Manifest
) -> None:
    copied.until_known("generation")
    path = f"{copied.objects}/old"
    manifest = {**job(), "apiVersion": f"{copied.group}/v1alpha1", "metadata": {"name": "old"}}
    assert copied.ask("POST", copied.objects, manifest).accepted
    old = {"world": world, "nextSerial": 6, "restarts": RESTARTS, "accumulators": SUMS}
    assert copied.ask("PATCH", f"{path}/status", {"status": old}, kind=MERGE).accepted

    new = copied.definition(crd(TRAINING_JOB))
    changed = copied.ask("PATCH", f"{DEFINITIONS}/{copied.name}", {"spec": new["spec"]}, kind=MERGE)
    assert changed.accepted, changed.message
    copied.until_known("number")
    found = copied.ask("GET", path).body["status"]
    assert found == old
    written = write(state_of(found)).manifest()
    assert as_before(written) == old

    # A user's change of a job that nobody writes any more, as of one that has ended.
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert copied.ask("PATCH", path, labels, kind=MERGE).accepted
    # The operator that is about to be replaced writes once more.
    once_more = {**old, "nextSerial": 7}
    misspelt = {"nextSerail": 8, "world": {**world, "swich": True}}
    patch = {"status": {**once_more, **misspelt}}
    assert copied.ask("PATCH", f"{path}/status", patch, kind=MERGE).accepted
    assert copied.ask("GET", path).body["status"] == once_more

    replaced = [{"op": "add", "path": "/status", "value": written}]
    assert copied.ask("PATCH", f"{path}/status", replaced, kind="json-patch+json").accepted
    assert copied.ask("GET", path).body["status"] == written
