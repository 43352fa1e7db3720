"""What was stored under old names is read once, and written under today's."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from devcluster.client import Manifest
from spotrun.api.crd import crd
from spotrun.api.names import TRAINING_JOB
from spotrun.api.old_names import DEPRECATED
from spotrun.api.schemas.reference import reference
from spotrun.api.status import TrainingJobStatus
from spotrun.state.codec import read, write
from spotrun.state.job_state import World
from tests.support.api.old_status import RENAMED, as_before, renamed_models
from tests.support.api.status_strategies import statuses

TRAINS = {"generation": 3, "members": "0-1,4", "switch": True, "how": "Boundary"}
PREPARED = {
    "generation": 4,
    "members": "0-2",
    "switch": False,
    "how": "Restart",
    "trained": "0-1",
    "spent": ["10.0.0.1:1"],
    "trains": 3,
    "late": "5,5",
    "joined": "2",
}


def parsed(status: Manifest) -> TrainingJobStatus:
    """Read a status as the operator does."""
    text = json.dumps(status)
    return TrainingJobStatus.model_validate_json(text, by_alias=True, by_name=False)


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param(
            TRAINS,
            {"number": 3, "members": "0-1,4", "active": True, "entry": "Boundary"},
            id="that trains",
        ),
        pytest.param(
            PREPARED,
            {
                "number": 4,
                "members": "0-2",
                "active": False,
                "entry": "Restart",
                "stateHolders": "0-1",
                "usedStores": ["10.0.0.1:1"],
                "trainingNumber": 3,
                "lateWorkers": "5,5",
                "joiningWorkers": "2",
            },
            id="that is prepared",
        ),
        pytest.param(
            {"generation": 9, "members": "", "switch": False, "how": "Restart", "trained": "1"},
            {
                "number": 9,
                "members": "",
                "active": False,
                "entry": "Restart",
                "stateHolders": "1",
            },
            id="of nobody",
        ),
    ],
)
def test_an_old_world_is_written_under_the_names_of_today(
    world: Manifest, expected: Manifest
) -> None:
    state = read(parsed({"world": world}))
    assert state.world != World()
    assert write(state).manifest() == {"world": expected}


def test_an_old_status_is_written_under_the_names_of_today() -> None:
    held = [{"workers": "2-3", "generation": 5}, {"workers": "7"}]
    newcomers = {"failures": 2, "retryAt": "2026-03-01T08:00:00Z", "held": held}
    sums = {"generation": 3, "checkpointGeneration": 2}
    old = {
        "nextSerial": 8,
        "restarts": {"lastGeneration": 4, "newcomers": newcomers},
        "accumulators": sums,
    }
    held = [{"workers": "2-3", "worldNumber": 5}, {"workers": "7"}]
    joining = {"failures": 2, "retryAt": "2026-03-01T08:00:00Z", "held": held}
    new = {
        "nextWorkerId": 8,
        "restarts": {"lastWorldNumber": 4, "joiningWorkers": joining},
        "accumulators": {"worldNumber": 3, "checkpointWorldNumber": 2},
    }
    assert write(read(parsed(old))).manifest() == new


@settings(max_examples=50)
@given(statuses(TrainingJobStatus))
def test_an_old_status_says_what_the_new_one_says(status: TrainingJobStatus) -> None:
    new = status.manifest()
    assert read(parsed(as_before(new))) == read(parsed(new))


@pytest.mark.parametrize(
    "world",
    [
        pytest.param({**TRAINS, "number": 3}, id="both names of one field"),
        pytest.param({k: v for k, v in TRAINS.items() if k != "generation"}, id="neither"),
        pytest.param({**TRAINS, "trained": 5}, id="another type"),
        pytest.param({**TRAINS, "generations": 3}, id="a name of no release"),
    ],
)
def test_what_no_release_has_written_is_refused(world: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parsed({"world": world})


def test_old_names_are_declared_as_deprecated_and_no_renamed_field_is_required() -> None:
    models = renamed_models(crd(TRAINING_JOB))
    assert models["world"]["required"] == ["members"]
    for path, names in RENAMED.items():
        fields = models[path]["properties"]
        for name, old in names.items():
            assert fields[old]["description"] == f"Deprecated: earlier name of {name}."
            assert fields[old]["type"] == fields[name]["type"]
        assert not set(models[path].get("required", ())) & {*names, *names.values()}


def test_old_names_are_not_in_the_reference() -> None:
    page = reference(
        {TRAINING_JOB: crd(TRAINING_JOB)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]}
    )
    assert "joiningWorkers" in page
    assert "newcomers" not in page
    assert DEPRECATED not in page
