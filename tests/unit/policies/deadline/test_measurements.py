from decimal import Decimal

from spotrun.state.stored.training import Pace
from spotrun.wire import Progress as Reported
from tests.support.jobs.builders import NOW, a_job, ago
from tests.support.jobs.placed_workers import OD, SPOT
from tests.support.money.pool_builders import a_node_of, on_market


def test_steps_and_changeovers_are_measured() -> None:
    job = on_market(a_job(1), SPOT, OD).with_worker(
        0,
        ready=True,
        arrived=1,
        node=a_node_of(SPOT, 0, ago(400)),
        created_at=ago(1000),
        ready_for=100.0,
        arrived_for=90.0,
        progress=Reported(1, 10, total=100, step_seconds=2.0),
    )
    pace = job.with_world("0", formed=95.0).decide().status.pace
    assert pace == Pace(step_seconds=Decimal("2.000000"), workers=1, changeovers=(305,), measured=0)
    again = job.with_world("0", formed=95.0).with_status(pace=pace).decide(NOW)
    assert again.status.pace == pace
