"""The API server stores the longest status there is, and refuses what is no list of numbers."""

from typing import Any
from uuid import uuid4

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.state.codec import write
from tests.integration.api.conftest import Server
from tests.support.api.manifest_cases import Manifest, job
from tests.support.jobs.largest_job import LargeLife


@pytest.fixture
def created(server: Server) -> Manifest:
    manifest = job()
    manifest["metadata"]["name"] = f"large-{uuid4().hex[:8]}"
    return server.create(manifest)


def test_the_status_of_the_largest_job_is_stored_as_it_was_written(
    server: Server, created: Manifest
) -> None:
    life = LargeLife(workers=10_000, looks=(0.0,))
    life.live(days=0.01)
    status = write(life.status).manifest()
    answer = server.replace({**created, "status": status}, "/status")
    assert answer.accepted, answer.message
    assert answer.body["status"] == status


@pytest.mark.parametrize("members", ["+", "+-5", "5,+2", "1-", "+5,--2", "0-2,x"])
def test_what_is_no_list_of_numbers_is_refused(
    server: Server, created: Manifest, members: str
) -> None:
    world: dict[str, Any] = {"number": 1, "members": members, "active": True, "entry": "Restart"}
    answer = server.replace({**created, "status": {"world": world}}, "/status")
    assert not answer.accepted
    with pytest.raises(ValueError, match="must be numbers and intervals"):
        WorkerIds(members)
