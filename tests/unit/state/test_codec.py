from dataclasses import fields, replace

from hypothesis import given, settings

from devcluster.client import Manifest
from spotrun.api.field_types.text_values import Serials
from spotrun.api.names import Phase
from spotrun.api.status import TrainingJobStatus
from spotrun.state.codec import read, read_said, write
from spotrun.state.job_state import JobState
from tests.support.api.status_strategies import statuses
from tests.support.jobs.stored_state import stored


def normal_form(status: TrainingJobStatus) -> Manifest:
    """Return the status as it is written: sets ascend, and what says nothing is left out."""
    manifest = status.manifest()
    world = manifest.get("world", {})
    for name in ("trained", "spent", "late", "joined", "breaks", "planned"):
        if not world.get(name):
            world.pop(name, None)
    if world == {"generation": 0, "members": "", "switch": False, "how": "Restart"}:
        del manifest["world"]
    for name in manifest.keys() & {"lost", "failed"}:
        manifest[name] = Serials.of(sorted(Serials(manifest[name]).set))
        if not manifest[name]:
            del manifest[name]
    if manifest.get("unused") == {"count": 0, "size": 0, "room": 0}:
        del manifest["unused"]
    _drop_empty(manifest, "rejections", "nodes")
    _drop_empty(manifest, "restarts", "blamed")
    _drop_empty(manifest.get("restarts", {}), "newcomers", "held")
    if not manifest.get("restarts"):
        manifest.pop("restarts", None)
    return manifest


def _drop_empty(parent: Manifest, block: str, name: str) -> None:
    if not parent.get(block, {}).get(name):
        parent.get(block, {}).pop(name, None)


@given(statuses())
def test_what_was_read_is_written_as_it_was(status: TrainingJobStatus) -> None:
    assert write(read(status)).manifest() == normal_form(status)


@settings(max_examples=50)
@given(statuses())
def test_what_was_written_is_read_as_it_was(status: TrainingJobStatus) -> None:
    state = read(status)
    assert stored(state) == state


@given(statuses())
def test_of_a_status_that_cannot_be_true_only_what_is_said_changes(
    status: TrainingJobStatus,
) -> None:
    said = replace(read_said(status), phase=Phase.PENDING, reason="LedgerRefused", message="no")
    changed = {"phase": "Pending", "reason": "LedgerRefused", "message": "no"}
    assert write(said).manifest() == status.manifest() | changed


def test_every_field_that_is_stored_has_a_place_in_the_state() -> None:
    assert {one.name for one in fields(JobState)} == {*TrainingJobStatus.model_fields, "unread"}
