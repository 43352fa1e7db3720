"""What the operator knows of pools: by asking, or told as in published replays."""

from spotrun.simulate.cluster import Cluster
from spotrun.simulate.pools import Pools
from spotrun.simulate.scenario import Rules
from spotrun.state.actions import Create, Placed, Release
from spotrun.state.market import PoolFacts
from tests.unit.simulate.markets import ASKING, GAP, ON_DEMAND, PUBLISHED, SPOT, a_market

WEST_A = "p3.2xlarge-us-west-2a-spot"


def a_cluster(picture: str, rules: Rules) -> tuple[Cluster, Pools]:
    cluster = Cluster(a_market(picture, rules=rules), rules)
    return cluster, Pools(cluster)


def spot(pools: Pools) -> PoolFacts:
    found = pools.look().pool(WEST_A)
    assert found is not None
    return found


def ask(cluster: Cluster, worker_id: int = 0) -> None:
    cluster.do(Create(worker_id, place=Placed(required=(WEST_A,))))
    cluster.serve()


def wait(cluster: Cluster, pools: Pools, until: float) -> None:
    """Look whenever time alone changes something."""
    while cluster.now < until:
        cluster.now = min(pools.next_event(), cluster.next_event(), until)
        cluster.serve()
        pools.look()


def test_prices_and_places_are_public() -> None:
    _, pools = a_cluster("#", ASKING)

    facts = spot(pools)

    assert (facts.usd_per_hour, facts.on_demand_usd_per_hour) == (SPOT, ON_DEMAND)
    assert (facts.zones, facts.region) == (("us-west-2a",), "us-west-2")


def test_whether_there_are_nodes_is_told_in_published_replays() -> None:
    cluster, pools = a_cluster("#.#", PUBLISHED)
    told = []
    for tick in range(3):
        cluster.now = tick * GAP
        told.append(spot(pools).available)

    assert told == [True, False, True]

    ask(cluster)
    assert spot(pools).available is False  # the only one is ours now


def test_who_does_not_ask_learns_nothing() -> None:
    cluster, pools = a_cluster("..##", ASKING)

    wait(cluster, pools, 4 * GAP)

    assert (spot(pools).available, spot(pools).retry_at) == (None, None)


def test_a_pool_that_gave_a_node_has_some_and_its_time_is_learned() -> None:
    cluster, pools = a_cluster("####", ASKING)
    pools.look()
    ask(cluster)

    wait(cluster, pools, GAP)

    assert spot(pools).available is True
    assert spot(pools).provision_seconds == 120
    assert spot(pools).nodes == 1


def test_a_pool_that_gives_none_is_dry_after_a_wait_and_then_rests() -> None:
    cluster, pools = a_cluster("." * 9, ASKING)
    ask(cluster)
    assert spot(pools).available is None

    wait(cluster, pools, 2 * GAP)

    assert spot(pools).available is False
    retry_at = spot(pools).retry_at
    assert retry_at is not None
    assert retry_at > cluster.market.time(cluster.now)


def test_nodes_that_are_taken_are_remembered() -> None:
    cluster, pools = a_cluster("##......", ASKING)
    ask(cluster)
    wait(cluster, pools, 3 * GAP)
    cluster.do(Release(0, "uid-1"))

    facts = spot(pools)

    assert facts.interruptions_24h == 1
    assert facts.last_interruption_at == cluster.market.time(2 * GAP)
    assert 0.25 < facts.node_hours_24h < 0.35
