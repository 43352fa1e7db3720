"""Tricks with paths: in names of checkpoints, in their addresses, and in the operator's own."""

from collections.abc import AsyncIterator

import pytest

from spotrun.wire import Ending, read_last_words
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.places.directory import open_place
from tests.integration.agents.helpers import (
    TOKEN,
    Caller,
    Replica,
    replica,
)
from tests.integration.attacks.helpers import Tenant
from tests.integration.attacks.test_tenants import refused
from tests.support.api.manifest_cases import job as a_job
from tests.support.jobs.published_jobs import job, worker, world


@pytest.fixture
async def there() -> AsyncIterator[Replica]:
    async with replica() as there:
        there.board.publish(job(world("0-1")), version=1)
        yield there


CHECKPOINTS = {
    "a path upwards": "../../../etc/passwd",
    "a path from the root": "/etc/passwd",
    "a path after a name": "step-1.g1/../../etc",
    "a path before a name": "../step-1.g1",
    "an address": "s3://thief/step-1.g1",
    "a second line": "step-1.g1\n../../etc",
    "a zero byte": "step-1.g1\x00",
    "digits of another script": "step-\u0663.g1",
    "leading zeros": "step-007.g1",
    "a sign": "step--1.g1",
    "more steps than can be stored": f"step-{2**53}.g1",
    "a number of ten thousand digits": f"step-{'9' * 10_000}.g1",
    "invalid Unicode": "\ud800",
}


@pytest.mark.parametrize("name", CHECKPOINTS.values(), ids=CHECKPOINTS)
async def test_a_worker_says_that_it_saved_a_checkpoint_called(there: Replica, name: str) -> None:
    """refused: only the two numbers in a checkpoint's name may vary"""
    async with Caller(there) as caller:
        said = await caller.report(worker(0), TOKEN, {"wire": 1, "committed": {"checkpoint": name}})
    assert said.status == 400
    assert "a checkpoint is called step-N.gG" in said.content["message"]
    assert there.heard.reports == []


PATHS = {way: name for way, name in CHECKPOINTS.items() if "more steps" not in way}


@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_a_trainer_is_told_to_restore_a_checkpoint_called(name: str) -> None:
    """refused by the trainer too: the name becomes that of a directory"""
    with pytest.raises(ValueError, match=r"is called step-N\.gG"):
        Name.parse(name)


def test_a_termination_message_names_a_checkpoint_that_is_a_path() -> None:
    """harmless: the operator ignores the message, and the exit code counts"""
    assert read_last_words('{"reason": "preempted", "checkpoint": "../../etc"}') is None
    said = read_last_words('{"reason": "preempted", "checkpoint": "step-1.g1"}')
    assert said is not None
    assert said.reason is Ending.PREEMPTED


PLACES = {
    "a file": "file:///etc",
    "a path": "/etc",
    "a path upwards": "../../etc",
    "a path to another bucket": "s3://../other",
    "a web page": "https://example.com/x",
    "with a password": "s3://user:password@bucket/x",
    "a second line": "s3://bucket/x\nSPOTRUN_SERVER=198.51.100.1:1",
    "a space": "s3://bucket/a b",
    "another script": "s3://bucket/\u202etxt",
    "too long": "s3://bucket/" + "a" * 1_024,
}


@pytest.mark.parametrize("uri", PLACES.values(), ids=PLACES)
def test_an_editor_keeps_checkpoints_in(editor: Tenant, uri: str) -> None:
    """refused by the schema: an address has to be a place in an object store"""
    body = a_job({"checkpoint": {"uri": uri}})
    assert refused(editor.try_to("POST", editor.jobs(), body), "spec.checkpoint.uri")


def test_a_trainer_is_given_a_place_that_is_no_directory() -> None:
    """refused by the trainer, with a message that says what it supports"""
    with pytest.raises(ValueError, match="only paths"):
        open_place("http://198.51.100.1/checkpoints")


ADDRESSES = {
    "upwards": "/v1/jobs/team/job/workers/job-abcde-0/../job-abcde-1/world",
    "upwards, encoded": "/v1/jobs/team/job/workers/%2e%2e/world",
    "a slash, encoded": "/v1/jobs/team%2Fjob/workers/job-abcde-0/world",
    "a slash, encoded twice": "/v1/jobs/team%252Fjob/workers/job-abcde-0/world",
    "two slashes": "/v1/jobs//job/workers/job-abcde-0/world",
    "a zero byte": "/v1/jobs/team/job/workers/job-abcde-0%00/world",
    "a line break": "/v1/jobs/team/job/workers/job-abcde-0%0d%0a/world",
    "parameters": "/v1/jobs/team/job;x=y/workers/job-abcde-0/world",
    "more after its end": "/v1/jobs/team/job/workers/job-abcde-0/world/more",
    "another script": "/v1/jobs/team/job/workers/job-abcde-\u0660/world",
    "very long": "/v1/jobs/team/job/workers/" + "a" * 300 + "/world",
}


@pytest.mark.parametrize("where", ADDRESSES.values(), ids=ADDRESSES)
async def test_a_worker_asks_for_an_invalid_path(there: Replica, where: str) -> None:
    """refused: only the exact path of a worker is served"""
    async with Caller(there) as caller:
        said = await caller.send("GET", where, TOKEN)
    assert said.status in {403, 404}
    assert len(said.content["message"]) > 10
    assert there.heard.touched == []
