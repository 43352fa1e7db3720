from spotrun.api.capacitypool import Capacity
from spotrun.state.actions import Placed
from tests.support.jobs.builders import a_job
from tests.support.jobs.placed_workers import OD, SPOT, asked, places
from tests.support.money.pool_builders import a_spot_pool, on_market


def test_workers_are_asked_from_a_set_of_pools_weighed_by_what_work_costs_there() -> None:
    job = on_market(a_job(1), a_spot_pool("dear", 0.8), a_spot_pool("cheap", 0.4), OD)
    (place,) = places(job)
    assert place == Placed(
        ("cheap", "dear"), (("cheap", 100), ("dear", 50)), capacity=Capacity.SPOT
    )


def test_a_decision_says_where_and_at_what_price() -> None:
    decisions = on_market(a_job(1), SPOT, OD).decide().status.decisions
    said = (
        "spot g5.xlarge zone-spot $0.40/h, expected $0.42 with interruptions; "
        "on-demand g5.xlarge zone-od $1.00/h"
    )
    assert (decisions[-1].what, decisions[-1].why) == ("Placed", said)


def test_spot_that_costs_as_much_as_on_demand_is_left_alone() -> None:
    job = on_market(a_job(1), a_spot_pool("dear", 1.0), OD)
    assert asked(job) == ["OnDemand"]
