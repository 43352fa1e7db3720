from dataclasses import replace
from decimal import Decimal

from prometheus_client import generate_latest

from spotrun.agents.answers import Published
from spotrun.metrics.registry import Meter
from spotrun.state.stored.scaling import ScalingState
from tests.support.jobs.published_jobs import job, world

SCALING = ScalingState(
    size=8,
    utilization={"GPU": Decimal("0.93"), "CPU": Decimal("0.4")},
    decisions={"UtilizationHigh": 2, "NoBenefit": 5},
)


def series(published: Published) -> dict[str, float]:
    meter = Meter(lambda: [published], lambda: True)
    lines = generate_latest(meter.registry).decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    ours = ("scaling", "utilization")
    prefix = "spotrun_trainingjob_"
    return {
        name.removeprefix(prefix).replace('name="job",namespace="team",', ""): float(value)
        for name, _, value in parts
        if name.removeprefix(prefix).startswith(ours)
    }


def test_sizes_utilization_and_decisions_have_series() -> None:
    published = job(world("0-3,7"))
    status = replace(published.status, scaling=SCALING)
    assert series(replace(published, status=status)) == {
        'scaling_workers{state="justified"}': 8,
        'scaling_workers{state="training"}': 5,
        'utilization_ratio{resource="GPU"}': 0.93,
        'utilization_ratio{resource="CPU"}': 0.4,
        'scaling_decisions_total{reason="UtilizationHigh"}': 2,
        'scaling_decisions_total{reason="NoBenefit"}': 5,
    }


def test_a_job_of_mode_manual_has_none() -> None:
    assert series(job(world("0-3"))) == {}


def test_a_world_that_is_prepared_does_not_train() -> None:
    published = job(world("0-3", is_active=False))
    status = replace(published.status, scaling=ScalingState(size=4))
    assert series(replace(published, status=status)) == {'scaling_workers{state="justified"}': 4}
