from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from spotrun.agents.answers import Published
from spotrun.api.meta import ConditionStatus, ReasonText
from spotrun.api.names import ConditionType
from spotrun.metrics.registry import Meter
from spotrun.state.stored.statements import Condition
from spotrun.state.stored.training import AcknowledgedCheckpoint, LocalCheckpoint, Progress
from spotrun.state.stored.workers import Interruptions
from spotrun.wire import Metric
from tests.support.jobs.published_jobs import job

MOMENT = datetime(2026, 3, 1, 8, tzinfo=UTC)


def figures(published: Published) -> dict[str, float]:
    """What is said of a job, by figure and the labels that are not its name."""
    meter = Meter(lambda: [published], lambda: True)
    samples = [sample for family in meter.registry.collect() for sample in family.samples]
    found = {}
    for sample in samples:
        labels = dict(sample.labels)
        if labels.pop("namespace", None) == "team" and labels.pop("name") == "job":
            figure = sample.name.removeprefix("spotrun_trainingjob_")
            found[" ".join([figure, *(f"{k}={v}" for k, v in sorted(labels.items()))])] = (
                sample.value
            )
    return found


def with_status(published: Published, **update: Any) -> Published:
    return replace(published, status=replace(published.status, **update))


def test_progress_and_what_is_saved_of_it() -> None:
    saved = AcknowledgedCheckpoint(name="step-400.g1", step=400, time=MOMENT)
    progress = Progress(step=420, samples_per_second=Decimal("12.5"))
    interruptions = Interruptions(lost_steps=7)

    found = figures(
        with_status(job(), progress=progress, checkpoint=saved, interruptions=interruptions)
    )

    assert found["step"] == 420
    assert found["samples_per_second"] == 12.5
    assert found["checkpoint_step"] == 400
    assert found["checkpoint_timestamp_seconds"] == 1772352000
    assert "local_checkpoint_step" not in found
    assert found["redone_steps_total"] == 7


def test_the_age_of_the_local_tier_is_beside_that_of_the_durable_checkpoint() -> None:
    found = figures(with_status(job(), local_checkpoint=LocalCheckpoint(step=415, time=MOMENT)))
    assert found["local_checkpoint_step"] == 415
    assert found["local_checkpoint_timestamp_seconds"] == 1772352000


def test_a_job_that_has_done_nothing_is_seen_to_have_done_nothing() -> None:
    found = figures(replace(job(), saves=True))

    assert found["step"] == 0
    assert found["checkpoint_step"] == 0
    assert "checkpoint_timestamp_seconds" not in found
    assert "samples_per_second" not in found


def test_nobody_misses_checkpoints_of_a_job_that_has_no_place_for_them() -> None:
    assert "checkpoint_step" not in figures(job())


def test_since_when_a_job_waits_is_shown_while_it_waits() -> None:
    for status, expected in ((ConditionStatus.TRUE, 1772352000), (ConditionStatus.FALSE, None)):
        waits = Condition(
            type=ReasonText(ConditionType.QUEUED.value),
            status=status,
            last_transition_time=MOMENT,
            reason=ReasonText("Queued"),
            message="",
        )
        found = figures(with_status(job(), conditions=(waits,)))
        assert found.get("queued_timestamp_seconds") == expected


def test_conditions_are_one_or_zero_and_absent_while_unknown() -> None:
    kinds = {
        ConditionType.RUNNING: ConditionStatus.TRUE,
        ConditionType.WITHIN_BUDGET: ConditionStatus.FALSE,
        ConditionType.ON_SCHEDULE: ConditionStatus.UNKNOWN,
    }
    conditions = tuple(
        Condition(
            type=ReasonText(kind.value),
            status=status,
            last_transition_time=MOMENT,
            reason=ReasonText("Training"),
            message="",
        )
        for kind, status in kinds.items()
    )

    found = figures(with_status(job(), conditions=conditions))

    assert {name: value for name, value in found.items() if "condition" in name} == {
        "condition condition=Running": 1,
        "condition condition=WithinBudget": 0,
    }


def test_workers_are_counted_where_they_run() -> None:
    placed = {("g5-spot", "Spot"): 3, ("", "OnDemand"): 1}

    found = figures(replace(job(), placed=placed))

    assert {name: value for name, value in found.items() if "placed" in name} == {
        "placed_workers capacity=OnDemand pool=": 1,
        "placed_workers capacity=Spot pool=g5-spot": 3,
    }


def test_values_of_the_script_have_a_series_each() -> None:
    found = figures(replace(job(), metrics=(Metric("loss", 2.5), Metric("accuracy", 0.5))))

    assert {name: value for name, value in found.items() if name.startswith("metric")} == {
        "metric metric=loss": 2.5,
        "metric metric=accuracy": 0.5,
    }
