"""What of a TrainingJob is replayed: sizes, work, deadline, checkpoints, and what is left out."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf
from typing import Any

import pytest

from spotrun.api.manifest import load
from spotrun.api.spec.limits import Budget, OnExceeded
from spotrun.api.spec.workers import ScalingMode
from spotrun.api.trainingjob import TrainingJob
from spotrun.simulate.estimate.replayable_job import Replayed, replayed
from spotrun.simulate.snapshot import TEMPLATE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = {"volume": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}
CONTAINERS = [{"name": "trainer", "image": "train:1"}]


def a_job(
    workers: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    created: datetime | None = None,
    **spec: object,
) -> TrainingJob:
    metadata = {"name": "gpt"}
    if created is not None:
        metadata["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    job = load(
        {
            "apiVersion": "spotrun.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": metadata,
            "spec": {
                "workers": {"template": {"spec": {"containers": CONTAINERS}}, **(workers or {})},
                **spec,
            },
            "status": status or {},
        }
    )
    assert isinstance(job, TrainingJob)
    return job


def what_is_replayed_of(job: TrainingJob, hours: float | None = 10) -> Replayed:
    return replayed(job, work_hours=hours, checkpoint_seconds=600, now=NOW)


@pytest.mark.parametrize(
    ("workers", "scaling", "sizes"),
    [
        pytest.param({}, {}, (1, 1), id="one worker"),
        pytest.param({"min": 2, "max": 8}, {}, (2, 8), id="auto: as many as may be"),
        pytest.param(
            {"min": 2, "max": 8, "replicas": 5}, {"mode": "Manual"}, (2, 5), id="as many as wanted"
        ),
        pytest.param({"max": 8, "replicas": 20}, {"mode": "Manual"}, (1, 8), id="more than may be"),
        pytest.param(
            {"min": 1, "max": 9, "sizes": [2, 4]}, {}, (2, 4), id="only the sizes that are given"
        ),
        pytest.param({"min": 2, "max": 8, "perReplica": 2}, {}, (2, 8), id="whole replicas"),
    ],
)
def test_its_sizes(
    workers: dict[str, Any], scaling: dict[str, Any], sizes: tuple[int, int]
) -> None:
    job = what_is_replayed_of(a_job(workers, scaling=scaling)).job

    assert (job.min_workers, job.workers) == sizes
    assert job.max_workers == job.workers
    assert job.spec is not None
    assert job.spec.workers.replicas == job.workers
    assert job.spec.scaling_mode is ScalingMode.MANUAL
    assert job.spec.workers.template == TEMPLATE


@pytest.mark.parametrize(
    ("deadline", "created", "seconds"),
    [
        pytest.param(None, None, inf, id="none"),
        pytest.param({"finishWithin": "10h"}, None, 36_000, id="of a job that is not there yet"),
        pytest.param(
            {"finishWithin": "10h"}, NOW - timedelta(hours=4), 21_600, id="part of it has passed"
        ),
        pytest.param({"finishBefore": "2026-03-02T12:00:00Z"}, None, 86_400, id="a moment"),
    ],
)
def test_its_deadline(
    deadline: dict[str, Any] | None, created: datetime | None, seconds: float
) -> None:
    given = {"deadline": {**deadline, "onMissed": "Cheapest"}} if deadline is not None else {}

    job = what_is_replayed_of(a_job(created=created, **given)).job

    assert job.deadline_seconds == seconds
    assert job.spec is not None
    due = job.spec.deadline
    assert (due is None) is (deadline is None)
    if due is not None and due.finish_within is not None:
        assert (due.finish_within.seconds, due.on_missed.value) == (seconds, "Cheapest")


def test_a_deadline_that_has_passed_leaves_nothing_to_plan() -> None:
    job = a_job(created=NOW - timedelta(hours=12), deadline={"finishWithin": "10h"})

    with pytest.raises(ValueError, match="the deadline was 2h ago"):
        what_is_replayed_of(job)


@pytest.mark.parametrize(
    ("deadline", "created", "complaint"),
    [
        (
            {"finishBefore": "2999-01-01T00:00:00Z"},
            None,
            "is 8,527,716 h from now, but the longest duration is 1,000,000",
        ),
        ({"finishWithin": "0.1ms"}, None, "the deadline was 0s ago"),
        ({"finishWithin": "10h"}, "2026-03-01T08:00:00", "metadata.creationTimestamp: must be a t"),
        ({"finishWithin": "10h"}, "yesterday", "metadata.creationTimestamp: must be a time with"),
    ],
)
def test_a_time_that_cannot_be_told_is_refused_with_its_field(
    deadline: dict[str, Any], created: str | None, complaint: str
) -> None:
    job = a_job(deadline=deadline)
    metadata = job.metadata.model_copy(update={"creation_timestamp": created})

    with pytest.raises(ValueError, match=complaint):
        what_is_replayed_of(job.model_copy(update={"metadata": metadata}))


@pytest.mark.parametrize("on_exceeded", list(OnExceeded))
@pytest.mark.parametrize(
    ("status", "left"),
    [
        pytest.param({}, "20", id="nothing is spent yet"),
        pytest.param({"cost": {}}, "20", id="what was spent is not known"),
        pytest.param({"cost": {"usd": "19.500000000001"}}, "0.499999999999", id="a part of it"),
    ],
)
def test_what_was_spent_is_taken_from_the_budget(
    status: dict[str, Any], left: str, on_exceeded: OnExceeded
) -> None:
    budget = {"maxCostUsd": "20", "maxUsdPerHour": "5", "onExceeded": on_exceeded.value}

    found = what_is_replayed_of(a_job(status=status, budget=budget, checkpoint=PLACE))

    assert (found.max_cost_usd, found.left_usd) == (Decimal(20), Decimal(left))
    assert found.job.spec is not None
    assert found.job.spec.budget == Budget.model_validate_json(
        json.dumps({**budget, "maxCostUsd": left})
    )


@pytest.mark.parametrize("on_exceeded", ["Suspend", "Fail"])
@pytest.mark.parametrize("spent", ["20", "20.50"])
def test_a_budget_that_is_spent_leaves_nothing_to_plan(spent: str, on_exceeded: str) -> None:
    budget = {"maxCostUsd": "20", "onExceeded": on_exceeded}
    job = a_job(status={"cost": {"usd": spent}}, budget=budget, checkpoint=PLACE)

    with pytest.raises(ValueError, match=r"of its budget of \$20.00 are spent: no money is left"):
        what_is_replayed_of(job)


@pytest.mark.parametrize("spent", ["20", "20.50"])
def test_a_budget_that_only_warns_may_be_spent(spent: str) -> None:
    job = a_job(status={"cost": {"usd": spent}}, budget={"maxCostUsd": "20", "onExceeded": "Warn"})

    found = what_is_replayed_of(job)

    assert (found.max_cost_usd, found.left_usd) == (Decimal(20), Decimal(0))
    assert found.job.spec is not None
    assert found.job.spec.budget == job.spec.budget


def test_no_money_is_left_of_no_limit() -> None:
    job = a_job(status={"cost": {"usd": "20"}}, budget={"maxUsdPerHour": "5"})

    found = what_is_replayed_of(job)

    assert (found.max_cost_usd, found.left_usd) == (None, None)
    assert found.job.spec is not None
    assert found.job.spec.budget == job.spec.budget


@pytest.mark.parametrize(
    ("checkpoint", "seconds"),
    [
        pytest.param({}, inf, id="no place: nothing is ever saved"),
        pytest.param({"checkpoint": {"volume": {"emptyDir": {}}}}, inf, id="gone with the pods"),
        pytest.param({"checkpoint": PLACE}, 600, id="Auto: what was told"),
        pytest.param({"checkpoint": {**PLACE, "every": "25m"}}, 1500, id="its own interval"),
    ],
)
def test_its_checkpoints(checkpoint: dict[str, Any], seconds: float) -> None:
    found = what_is_replayed_of(a_job(**checkpoint))

    assert found.checkpoint_seconds == seconds
    assert any("begins again" in one for one in found.left_out) is (seconds == inf)


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({}, "the amount of work is unknown"),
        ({"progress": {"step": 5}}, "the amount of work is unknown"),
        ({"progress": {"step": 5, "totalSteps": 9}}, "the amount of work is unknown"),
        (
            {"progress": {"step": 5, "totalSteps": 9}, "pace": {}},
            "not say yet how long a step takes",
        ),
        (
            {
                "progress": {"step": 9, "totalSteps": 9},
                "pace": {"stepSeconds": "1", "workers": 1},
            },
            "there is nothing to estimate",
        ),
    ],
)
def test_work_that_is_not_known_is_asked_for(status: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        what_is_replayed_of(a_job(status=status), hours=None)


def test_steps_that_fewer_workers_took_are_shorter_at_full_size() -> None:
    status = {
        "progress": {"step": 100, "totalSteps": 1000},
        "pace": {"stepSeconds": "8", "workers": 2},
    }

    found = what_is_replayed_of(a_job({"max": 4}, status), hours=None)

    assert found.job.work_seconds == pytest.approx(900 * 8 * 2 / 4)


def test_what_cannot_be_replayed_is_named() -> None:
    job = a_job(
        {"max": 4},
        suspend=True,
        placement={"poolSelector": {"matchLabels": {"tier": "cheap"}}},
        checkpoint=PLACE,
        schedule={
            "windows": [{"days": ["Sat"], "from": "00:00", "to": "24:00", "timeZone": "UTC"}]
        },
    )

    found = what_is_replayed_of(job)

    said = " / ".join(found.left_out)
    for what in ("scaling is Auto", "schedule", "poolSelector", "suspend", "fill a node"):
        assert what in said
    assert found.job.spec is not None
    assert found.job.spec.schedule is None
    assert found.job.spec.placement.pool_selector is None
    assert not found.job.spec.suspend


def test_on_demand_alone_loses_nothing_without_a_checkpoint() -> None:
    found = what_is_replayed_of(a_job(placement={"capacity": "OnDemand"}))

    assert not any("begins again" in one for one in found.left_out)
