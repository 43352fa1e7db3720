import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from spotrun.api import CapacityPool, TrainingJob, load
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Phase
from spotrun.api.spec.limits import OnExceeded
from spotrun.api.spec.selector import LabelSelector
from spotrun.api.spec.workers import ScalingMode
from spotrun.api.status import Entry, TrainingJobStatus, World
from tests.support.api.manifest_cases import FULL, FULL_POOL, Manifest, changed, job

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def _trainingjob(changes: dict[str, Any] | None = None) -> TrainingJob:
    loaded = load(job(changes))
    assert isinstance(loaded, TrainingJob)
    return loaded


@pytest.mark.parametrize("manifest", [job(), FULL, FULL_POOL])
def test_a_manifest_is_written_back_as_it_was(manifest: Manifest) -> None:
    written = load(manifest).manifest()
    assert written == manifest
    assert yaml.safe_load(yaml.safe_dump(written)) == manifest


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_good_and_called_like_their_files(path: Path) -> None:
    example = load(yaml.safe_load(path.read_text("ascii")))
    assert isinstance(example, CapacityPool) or example.metadata.name == path.stem


def test_other_values_are_checked_like_those_that_people_write() -> None:
    workers = _trainingjob().spec.workers
    other = workers.having(replicas=3, max=4)
    assert (other.replicas, other.max, other.template) == (3, 4, workers.template)
    assert "min" not in other.manifest()
    for wrong in ({"replicaz": 3}, {"replicas": "three"}, {"min": 4, "max": 2}):
        with pytest.raises(ValidationError):
            workers.having(**wrong)


def test_a_minimal_job_is_complete() -> None:
    spec = _trainingjob().spec
    assert (spec.suspend, spec.priority) == (False, 0)
    workers = spec.workers
    assert (workers.min, workers.max, workers.replicas, workers.per_replica) == (1, 1, 1, 1)
    assert (workers.sizes, workers.processes) == (None, None)
    assert (spec.placement.fallback_after.seconds, spec.failures.max_restarts) == (600, 3)
    assert spec.placement.give_back_after.seconds == 1200
    assert (spec.deadline, spec.budget, spec.checkpoint, spec.finished) == (None,) * 4


def test_the_mode_follows_from_the_sizes_unless_given() -> None:
    assert _trainingjob().spec.scaling_mode is ScalingMode.MANUAL
    assert _trainingjob({"workers.max": 2}).spec.scaling_mode is ScalingMode.AUTO
    given = _trainingjob({"workers.max": 2, "scaling.mode": "Manual"})
    assert given.spec.scaling_mode is ScalingMode.MANUAL


def test_models_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        _trainingjob().spec.suspend = True  # type: ignore[misc]  # what is tested


def test_what_is_absent_is_not_written_and_what_is_passed_through_stays() -> None:
    status = TrainingJobStatus(
        phase=Phase.RUNNING,
        message=None,
        world=World(number=1, members=WorkerIds.of((0, 1, 4)), active=True, entry=Entry.BOUNDARY),
    )
    assert status.manifest() == {
        "phase": "Running",
        "world": {"number": 1, "members": "0-1,4", "active": True, "entry": "Boundary"},
    }


def test_the_container_that_trains_is_found() -> None:
    full = load(FULL)
    assert isinstance(full, TrainingJob)
    trainer = full.spec.workers.template.spec.trainer
    assert trainer is not None
    assert trainer.args == ("train.py", "--lr=3e-4")
    assert trainer.model_extra == {"env": [{"name": "A", "value": ""}]}


def test_a_budget_suspends_unless_it_says_otherwise() -> None:
    budget = _trainingjob({"budget.maxUsdPerHour": "1"}).spec.budget
    assert budget is not None
    assert budget.on_exceeded is OnExceeded.SUSPEND


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selectors_select_as_kubernetes_does(selector: Manifest, selected: bool) -> None:
    loaded = _trainingjob({"placement.poolSelector": selector})
    assert isinstance(loaded.spec.placement.pool_selector, LabelSelector)
    assert loaded.spec.placement.pool_selector.matches({"a": "1"}) is selected


def test_metadata_of_the_server_is_carried_along() -> None:
    stored = changed(job(), {"/metadata.managedFields": [{"manager": "kubectl"}]})
    stored = changed(stored, {"/metadata.generation": 3, "/status.phase": "Running"})
    assert load(stored).manifest() == stored


def test_nothing_stays_in_memory_of_statuses_that_were_read() -> None:
    """Each job's have texts of their own, and the operator reads those of thousands of jobs."""

    def read(number: int) -> None:
        TrainingJobStatus.model_validate_json(json.dumps({"message": f"job-{number:06}"}))

    read(0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1, 2000):
            read(number)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000
