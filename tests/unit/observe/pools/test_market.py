"""Pools and the market, out of events of nodes, of our own pods and of CapacityPools."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import Placement
from spotrun.kube.resource import Key
from spotrun.money.price_history import PriceHistory
from spotrun.money.price_sources import FROM_NODE, Catalog
from spotrun.money.price_table import PriceTable
from spotrun.money.shares import Resources
from spotrun.money.units import UsdPerHour
from spotrun.observe import resources
from spotrun.observe.kube_objects import NodeObject, NodeStatus, PodObject, PoolObject
from spotrun.observe.nodes.interruption_notices import EventTimes
from spotrun.observe.pools.fit import Demand, demand_of
from spotrun.observe.pools.market import Markets
from spotrun.observe.pools.objects import Member
from spotrun.observe.pools.pools import Pools
from spotrun.observe.pools.snapshot import pool_snapshot
from spotrun.observe.prices.node_prices import Prices
from spotrun.policies.pool.interruption_rate import PRIOR_PER_HOUR
from spotrun.policies.pool.policy import next_pool
from spotrun.policies.pool.snapshot import PoolSnapshot
from spotrun.state.market import Market, PoolFacts
from spotrun.state.snapshot import Node
from spotrun.state.stored.pools.pool_codec import write
from tests.support.jobs.builders import a_spec

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
POOL = "spot-g5-xlarge-us-east-1b"
TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
LABELS = {TYPE: "g5.xlarge", ZONE: "us-east-1b", "karpenter.sh/capacity-type": "spot"}
HAS = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
ONE_GPU = {"requests": {"cpu": "3", "nvidia.com/gpu": "1"}}
ITN = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
KARPENTER = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
READY = {"type": "Ready", "status": "True"}
PRICE = "spotrun.dev/usd-per-hour"


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def a_node(name: str = "n1", *, uid: str = "", age: float = 3600, **parts: Any) -> NodeObject:
    meta = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": at(-age),
        "labels": {**LABELS, "kubernetes.io/hostname": name, **parts.pop("labels", {})},
        "annotations": parts.pop("annotations", {}),
    }
    status = {"conditions": [parts.pop("condition", READY)], "allocatable": HAS}
    return msgspec.convert({"metadata": meta, "spec": parts, "status": status}, NodeObject)


def a_pod(name: str = "w0", node: str | None = None, **parts: Any) -> PodObject:
    asked = parts.pop("asked", "")
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": at(-parts.pop("age", 60)),
        "annotations": {"spotrun.dev/pools": asked},
    }
    spec: dict[str, Any] = {"containers": [{"resources": ONE_GPU}]}
    spec |= {"nodeName": node} if node else {}
    found_none = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {
        "phase": parts.pop("phase", "Running" if node else "Pending"),
        "conditions": [] if node else [found_none],
    }
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PodObject)


def an_object(name: str, spec: dict[str, Any], generation: int = 1, **meta: Any) -> PoolObject:
    status = meta.pop("status", {})
    known = {"name": name, "uid": "p", "resourceVersion": "9", "generation": generation, **meta}
    content = {"metadata": known, "spec": spec, "status": status}
    return msgspec.json.decode(json.dumps(content), type=PoolObject)


class Scene:
    """Pools with what they are told of, and the time."""

    def __init__(self) -> None:
        self.now = NOW
        self.sees_all = True  # as an operator does that serves every namespace
        self.pods: dict[str, PodObject] = {}
        self.nodes: dict[str, NodeObject] = {}
        self.said: dict[str, EventTimes] = {}
        self.turned_down: set[str] = set()  # the names of pods
        self.changed: list[str] = []
        self.is_worker = True
        self.pools = Pools(
            pods_on=self._on,
            events=lambda node: self.said.get(node.metadata.name, EventTimes()),
            changed=self.changed.append,
            wall=lambda: self.now,
            is_worker=lambda _: self.is_worker,
        )
        self.catalog = Catalog()
        self.markets = Markets(self.pools, lambda: self.catalog, lambda: self.now)

    def node(self, node: NodeObject) -> None:
        name = node.metadata.name
        old, self.nodes[name] = self.nodes.get(name), node
        self.pools.node_changed(old, node)

    def no_node(self, name: str = "n1") -> None:
        self.pools.node_changed(self.nodes.pop(name), None)

    def pod(self, pod: PodObject) -> None:
        name = pod.metadata.name
        old, self.pods[name] = self.pods.get(name), pod
        self.pools.pod_changed(old, pod)

    def no_pod(self, name: str = "w0") -> None:
        self.pools.pod_changed(self.pods.pop(name), None)

    def market(self, demand: Demand | None = None, **placement: Any) -> Market:
        selected = Placement.model_validate(placement)
        return self.markets.market_for(selected, demand or a_demand(), "ns", {"team": "vision"})

    def facts(self, name: str = POOL, demand: Demand | None = None) -> PoolFacts:
        found = self.market(demand).pool(name)
        assert found is not None
        return found

    def snapshot(self, name: str = POOL, demand: Demand | None = None) -> PoolSnapshot:
        pool = self.pools.get(name)
        assert pool is not None
        needs = demand or a_demand()
        return pool_snapshot(
            self.pools,
            pool,
            self.catalog,
            lambda _: needs,
            float("inf"),
            sees_all=self.sees_all,
            is_turned_down=lambda pod: pod.metadata.name in self.turned_down,
        )

    def _on(self, node: str) -> Iterable[PodObject]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == node]


def a_demand(**spec: Any) -> Demand:
    container = {"name": "trainer", "image": "i", "resources": ONE_GPU}
    return demand_of(a_spec(template={"spec": {"containers": [container], **spec}}))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_operators_of_single_namespaces_do_not_write_their_workers_over_each_others() -> None:
    mine, yours = Scene(), Scene()
    for scene, worker in ((mine, "w0"), (yours, "")):
        scene.sees_all = False
        scene.node(a_node("n1"))
        if worker:
            scene.pod(a_pod(worker, "n1"))
    assert mine.facts().workers == 1  # that count against maxWorkers
    written = next_pool(mine.snapshot(), NOW)
    assert written.workers is None
    assert next_pool(replace(yours.snapshot(), status=written), NOW) == written


def test_a_pool_of_many_nodes_reads_each_of_them_once(scene: Scene) -> None:
    def num_read() -> int:
        calls = resources._value.cache_info()
        return calls.hits + calls.misses

    scene.node(a_node("n0"))
    before, nodes = num_read(), 50
    for number in range(1, nodes + 1):
        scene.node(a_node(f"n{number}"))
        assert scene.facts().nodes == number + 1  # as a job that is decided between two nodes
    assert num_read() - before <= 20 * nodes


def test_workers_that_wait_for_a_pool_do_not_each_look_at_all_of_its_nodes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, workers = 30, 40
    for number in range(nodes):
        scene.node(a_node(f"n{number}"))
    for number in range(workers):
        scene.pod(a_pod(f"w{number}", asked=POOL))
    looks: list[str] = []
    members = scene.pools.members

    def counted(name: str) -> Iterable[Member]:
        for member in members(name):
            looks.append(member.node.metadata.name)
            yield member

    monkeypatch.setattr(scene.pools, "members", counted)
    assert len(scene.snapshot().waiting) == workers
    assert len(looks) <= 5 * nodes


def test_a_pool_as_jobs_see_it(scene: Scene) -> None:
    scene.node(a_node("n1"))
    scene.node(a_node("n2"))
    scene.pod(a_pod("w0", "n1"))
    assert scene.facts() == PoolFacts(
        name=POOL,
        capacity=Capacity.SPOT,
        zones=("us-east-1b",),
        instance_types=("g5.xlarge",),
        accelerator="g5",
        gpus=1,
        nodes=2,
        workers=1,
        match_labels={key: (value,) for key, value in LABELS.items()},
        allocatable=Resources(Decimal(4), Decimal(16 * 2**30), 1),
        free_slots=1,
        node_hours_24h=2.0,
    )


def test_room_is_where_no_worker_of_ours_is(scene: Scene) -> None:
    for number in range(3):
        scene.node(a_node(f"n{number}"))
    assert scene.facts().free_slots == 3
    scene.pod(a_pod("w0", "n0"))
    scene.pod(a_pod("w1"))
    assert scene.facts().free_slots == 2
    scene.pod(a_pod("w1", "n1"))
    assert scene.facts().free_slots == 1
    scene.pod(a_pod("w0", "n0", phase="Succeeded"))
    scene.no_pod("w1")
    assert scene.facts().free_slots == 3


@pytest.mark.parametrize(
    "node",
    [
        a_node(unschedulable=True),
        a_node(taints=[ITN]),
        a_node(condition={"type": "Ready", "status": "Unknown"}),
        a_node(taints=[{"key": "red", "effect": "NoSchedule"}]),
    ],
    ids=["cordoned", "leaves", "not ready", "tainted"],
)
def test_no_room_is_where_nobody_can_go(scene: Scene, node: NodeObject) -> None:
    scene.node(a_node("other"))
    scene.node(node)
    assert scene.facts().free_slots == 1
    scene.node(a_node())
    assert scene.facts().free_slots == 2


def test_no_room_is_on_a_node_of_which_events_say_that_it_leaves(scene: Scene) -> None:
    scene.node(a_node())
    scene.said["n1"] = EventTimes(rebalanced_at=NOW)
    scene.pools.look_again(scene.nodes["n1"])
    assert scene.facts().free_slots == 0


def test_room_is_for_whom_the_nodes_suit(scene: Scene) -> None:
    scene.node(a_node())
    assert scene.facts(demand=a_demand(nodeSelector={TYPE: "p4d.24xlarge"})).free_slots == 0
    assert scene.facts(demand=a_demand(nodeSelector={TYPE: "g5.xlarge"})).free_slots == 1
    assert scene.facts(demand=Demand()).free_slots == 1
    scene.pod(a_pod("w0", "n1"))
    assert scene.facts(demand=Demand()).free_slots == 0, "who asks for nothing has a node alone"


def test_nodes_of_no_known_type_are_in_no_pool(scene: Scene) -> None:
    scene.node(a_node())
    stray = Resources(cpu=Decimal(4), memory=Decimal(16 * 2**30), gpus=1)
    assert scene.market().strays == ()
    scene.node(a_node("n2", labels={TYPE: ""}))
    scene.node(a_node("n3", labels={TYPE: ""}))
    assert scene.market().strays == (stray,)
    assert scene.pools.place(scene.nodes["n2"]) is None
    scene.node(a_node("n3"))
    assert scene.market().strays == (stray,)
    scene.no_node("n2")
    assert scene.market().strays == ()


def test_a_cluster_in_which_no_node_is_of_a_known_type_has_no_pool(scene: Scene) -> None:
    scene.node(a_node(labels={TYPE: ""}))
    assert scene.market().pools == ()


def test_a_node_is_in_its_pool_with_the_capacity_that_it_has_there(scene: Scene) -> None:
    scene.node(a_node(labels={"karpenter.sh/capacity-type": "", "own": "x"}))
    assert scene.pools.place(scene.nodes["n1"]) == (
        "on-demand-g5-xlarge-us-east-1b",
        Capacity.ON_DEMAND,
    )
    declared = an_object("mine", {"capacity": "Spot", "nodeSelector": {"own": "x"}})
    assert scene.pools.pool_changed(None, declared)
    assert scene.pools.place(scene.nodes["n1"]) == ("mine", Capacity.SPOT)
    assert [pool.name for pool in scene.market().pools] == ["mine"]
    assert scene.facts("mine").declared
    assert scene.pools.pool_changed(declared, None)
    assert scene.pools.place(scene.nodes["n1"]) is not None


def test_a_declared_pool_is_in_the_market_before_it_has_a_node(scene: Scene) -> None:
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "maxWorkers": 4, "zones": ["z"]}
    scene.pools.pool_changed(None, an_object("mine", spec))
    facts = scene.facts("mine")
    assert (facts.nodes, facts.allocatable, facts.max_workers) == (0, None, 4)
    assert facts.match_labels == {TYPE: ("g5.xlarge",), ZONE: ("z",)}


def test_a_pool_that_an_admin_has_changed_is_the_admins(scene: Scene) -> None:
    scene.node(a_node())
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "zones": ["us-east-1b"]}
    found: dict[str, Any] = {"labels": {"app.kubernetes.io/managed-by": "spotrun"}}
    ours = an_object(POOL, spec, **found)
    assert not scene.pools.pool_changed(None, ours)
    assert scene.snapshot().is_ours
    theirs = an_object(POOL, {**spec, "usdPerHour": "0.4"}, generation=2, **found)
    assert scene.pools.pool_changed(ours, theirs)
    assert not scene.snapshot().is_ours
    assert scene.facts().nodes == 1


def test_a_name_that_somebody_else_has_taken_is_left_alone(scene: Scene) -> None:
    other = {"capacity": "Spot", "instanceTypes": ["c7i.large"]}
    scene.pools.pool_changed(None, an_object(POOL, other))
    scene.node(a_node())
    names = [pool.name for pool in scene.market().pools]
    assert len(names) == 2
    assert scene.facts().nodes == 0
    assert all(name.startswith(POOL) for name in names)


def test_the_first_job_knows_what_a_pool_costs(scene: Scene) -> None:
    rows = "instanceType,region,zone,capacity,usdPerHour\ng5.xlarge,,,Spot,0.42\n"
    scene.catalog = Catalog((PriceTable.parse(rows + "g5.xlarge,,,OnDemand,1.006\n", "table"),))
    scene.node(a_node())
    facts = scene.facts()
    assert (facts.usd_per_hour, facts.on_demand_usd_per_hour) == (Decimal("0.42"), Decimal("1.006"))
    price = next_pool(scene.snapshot(), NOW).price
    assert price is not None
    assert (price.usd_per_hour, price.on_demand_usd_per_hour) == (
        UsdPerHour(Decimal("0.42")),
        UsdPerHour(Decimal("1.006")),
    )


def test_own_nodes_cost_what_their_purchase_and_use_come_to(scene: Scene) -> None:
    own = {"purchaseUsd": "35040", "years": "2", "utilization": "0.8"}
    spec = {"capacity": "Reserved", "nodeSelector": {"rack": "a"}, "ownNodes": own}
    scene.pools.pool_changed(None, an_object("own", spec))
    assert scene.facts("own").usd_per_hour == Decimal("2.5")
    price = next_pool(scene.snapshot("own"), NOW).price
    assert price is not None
    assert price.source == "ownNodes of the CapacityPool"


@pytest.mark.parametrize(
    ("stated", "usd_per_hour"),
    [
        pytest.param(["0.31", "0.310"], Decimal("0.31"), id="the same"),
        pytest.param(["0.31", "0.32", "0.4"], Decimal("0.4"), id="different prices: the dearest"),
        pytest.param(["0.9", "0.31"], Decimal("0.9"), id="also above what a table says"),
        pytest.param(["0.31", None], Decimal("0.42"), id="one of them nothing"),
        pytest.param(["0.31", "0.32", None], Decimal("0.42"), id="one beside different prices"),
        pytest.param(["0.31", "cheap"], Decimal("0.42"), id="one of them what nobody can read"),
        pytest.param(["cheap", "cheap"], None, id="what nobody can read"),
    ],
)
def test_a_pool_costs_what_all_its_nodes_state(
    scene: Scene, stated: list[str | None], usd_per_hour: Decimal | None
) -> None:
    rows = "instanceType,region,zone,capacity,usdPerHour\ng5.xlarge,,,Spot,0.42\n"
    scene.catalog = Catalog((PriceTable.parse(rows, "table"),))
    for number, usd in enumerate(stated):
        annotations = {} if usd is None else {PRICE: usd}
        scene.node(a_node(f"n{number}", annotations=annotations))
    assert scene.facts().usd_per_hour == usd_per_hour


def test_a_node_that_is_taken_back_says_nothing_of_what_the_next_one_costs(scene: Scene) -> None:
    scene.node(a_node("old", annotations={PRICE: "0.35"}))
    scene.node(a_node("new", annotations={PRICE: "0.31"}))
    assert scene.facts().usd_per_hour == Decimal("0.35")
    scene.node(a_node("old", annotations={PRICE: "0.35"}, taints=[ITN]))
    assert scene.facts().usd_per_hour == Decimal("0.31")


def test_nobody_says_for_a_node_that_states_nothing_what_others_state(scene: Scene) -> None:
    scene.node(a_node("one", annotations={PRICE: "0.31"}))
    scene.node(a_node("other", annotations={PRICE: "0.35"}))
    scene.node(a_node("mute"))
    assert scene.facts().usd_per_hour is None


@given(
    prices=st.lists(st.decimals("0.01", "99", places=2), min_size=1, max_size=6),
    is_declared=st.booleans(),
)
def test_a_pool_costs_no_less_than_any_of_its_nodes_and_each_worker_what_its_own_states(
    prices: list[Decimal], is_declared: bool
) -> None:
    scene = Scene()
    if is_declared:
        spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "usdPerHour": "0.005"}
        scene.pools.pool_changed(None, an_object(POOL, spec))
    for number, usd in enumerate(prices):
        scene.node(a_node(f"n{number}", annotations={PRICE: str(usd)}))
    assert scene.facts().usd_per_hour == max(prices)
    price = next_pool(scene.snapshot(), NOW).price
    assert price is not None
    assert (price.usd_per_hour, price.source) == (UsdPerHour(max(prices)), FROM_NODE)
    paid = Prices({POOL: price}.get, lambda: NOW, scene.catalog)
    for number, usd in enumerate(prices):
        node = Node(f"n{number}", pool=POOL, created_at=NOW, stated_price=str(usd))
        assert paid.priced(node).prices == PriceHistory.constant(UsdPerHour(usd))


def test_a_pool_without_nodes_costs_what_the_last_ones_stated_until_people_say_else(
    scene: Scene,
) -> None:
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "zones": ["us-east-1b"]}
    scene.node(a_node(annotations={PRICE: "0.31"}))
    status = write(next_pool(scene.snapshot(), NOW)).manifest()
    scene.pools.pool_changed(None, an_object(POOL, spec, status=status))
    scene.no_node()
    assert scene.facts().nodes == 0
    price = next_pool(scene.snapshot(), NOW).price
    assert price is not None
    assert price.usd_per_hour == UsdPerHour(Decimal("0.31"))
    scene.pools.pool_changed(None, an_object(POOL, {**spec, "usdPerHour": "0.4"}, status=status))
    price = next_pool(scene.snapshot(), NOW).price
    assert price is not None
    assert price.usd_per_hour == UsdPerHour(Decimal("0.4"))


def test_jobs_choose_pools_by_label_and_pools_choose_namespaces(scene: Scene) -> None:
    spec = {"capacity": "Spot", "instanceTypes": ["a"]}
    choosy = {**spec, "namespaceSelector": {"matchLabels": {"team": "speech"}}}
    by_name = {**spec, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}
    scene.pools.pool_changed(None, an_object("a", spec, labels={"tier": "1"}))
    scene.pools.pool_changed(None, an_object("b", choosy))
    scene.pools.pool_changed(None, an_object("c", by_name))
    allowed = {pool.name: pool.namespaces_allowed for pool in scene.market().pools}
    assert allowed == {"a": True, "b": False, "c": True}
    chosen = scene.market(poolSelector={"matchLabels": {"tier": "1"}}).pools
    assert [pool.name for pool in chosen] == ["a"]


def test_the_rate_of_a_pool_is_that_of_its_market(scene: Scene) -> None:
    spec = {"instanceTypes": ["a"], "region": "here"}
    taken = {"time": at(-60), "nodes": 1, "nodeHours": "1"}
    storm = {"interruptions24h": 9, "interruptions": [taken], "asOf": at(-60)}
    scene.pools.pool_changed(None, an_object("calm", {**spec, "capacity": "Spot"}))
    calm = scene.markets.interruptions_per_hour("calm")
    scene.pools.pool_changed(None, an_object("storm", {**spec, "capacity": "Spot"}, status=storm))
    scene.pools.pool_changed(None, an_object("stable", {**spec, "capacity": "OnDemand"}))
    rate_of = scene.markets.interruptions_per_hour

    assert calm == PRIOR_PER_HOUR
    storm_rate, calm_rate = rate_of("storm"), rate_of("calm")
    assert storm_rate is not None
    assert calm_rate is not None
    assert storm_rate >= calm_rate > calm, "a pool like it is stormy"
    assert rate_of("stable") is None
    assert rate_of("none") is None


# what happens to nodes ----------------------------------------------------------------------------


def interruptions(scene: Scene) -> int | None:
    return next_pool(scene.snapshot(), scene.now).interruptions_24h


def test_a_node_that_the_cloud_takes_back_counts_from_its_notice_and_once(scene: Scene) -> None:
    scene.node(a_node())
    scene.node(a_node(taints=[ITN]))
    assert interruptions(scene) == 1
    assert scene.facts().last_interruption_at == NOW, "who was just lost must rest"
    assert scene.snapshot().nodes == ()
    scene.now += timedelta(minutes=10)
    scene.no_node()
    scene.node(a_node("n2"))
    assert interruptions(scene) == 1


def test_a_node_that_goes_without_a_word_was_taken(scene: Scene) -> None:
    scene.node(a_node())
    scene.no_node()
    scene.node(a_node("n2"))
    assert interruptions(scene) == 1


def test_the_next_machine_of_a_name_is_another_node(scene: Scene) -> None:
    scene.node(a_node())
    scene.node(a_node(uid="another", age=0))
    assert interruptions(scene) == 1
    assert scene.snapshot().nodes == (NOW,)


@pytest.mark.parametrize(
    "goes",
    [{"unschedulable": True}, {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}],
    ids=["drained", "scaled down"],
)
def test_a_node_that_is_given_back_was_not_taken(scene: Scene, goes: dict[str, Any]) -> None:
    scene.node(a_node())
    scene.node(a_node(**goes))
    scene.no_node()
    scene.node(a_node("n2"))
    assert interruptions(scene) == 0


def test_karpenter_takes_a_node_with_our_workers_only_where_it_must(scene: Scene) -> None:
    scene.node(a_node("n1"))
    scene.node(a_node("n2"))
    scene.pod(a_pod("w0", "n2"))
    scene.node(a_node("n1", taints=[KARPENTER]))
    scene.no_node("n1")
    scene.node(a_node("n3"))
    assert interruptions(scene) == 0
    scene.node(a_node("n2", taints=[KARPENTER]))
    scene.no_node("n2")
    assert interruptions(scene) == 1


def test_karpenters_event_tells_that_the_cloud_takes_the_node(scene: Scene) -> None:
    scene.node(a_node())
    scene.said["n1"] = EventTimes(interrupted_at=NOW)
    scene.pools.look_again(scene.nodes["n1"])
    assert interruptions(scene) == 1


def test_what_was_under_notice_when_it_was_first_seen_was_counted_before(scene: Scene) -> None:
    scene.node(a_node(taints=[ITN]))
    assert interruptions(scene) == 0
    scene.no_node()
    scene.node(a_node("n2"))
    assert interruptions(scene) == 0


def test_what_a_status_holds_is_forgotten_here(scene: Scene) -> None:
    scene.node(a_node())
    scene.node(a_node(taints=[ITN]))
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "zones": ["us-east-1b"]}
    ours: dict[str, Any] = {"labels": {"app.kubernetes.io/managed-by": "spotrun"}}
    early, late = ({"asOf": f"2026-03-02T{hour}:00:00Z"} for hour in (11, 13))
    before = an_object(POOL, spec, status=early, **ours)
    scene.pools.pool_changed(None, before)
    assert len(scene.pools.news(POOL).lives) == 1
    scene.pools.pool_changed(before, an_object(POOL, spec, status=late, **ours))
    assert scene.pools.news(POOL).lives == []


def test_how_long_a_node_took_is_the_wait_of_whom_it_was_made_for(scene: Scene) -> None:
    scene.pod(a_pod("w0", age=300))
    scene.node(a_node("n1", age=60))
    scene.pod(a_pod("w0", "n1", age=300))
    assert scene.snapshot().provisioned == ((NOW, 300.0),)
    scene.pod(a_pod("w1", age=10))
    scene.node(a_node("n2"))
    scene.pod(a_pod("w1", "n2", age=10))
    assert len(scene.snapshot().provisioned) == 1, "that node was there before"


def test_a_node_whose_gpus_are_not_registered_yet_does_not_say_that_it_has_none(
    scene: Scene,
) -> None:
    fresh = msgspec.structs.replace(a_node("n0"), status=msgspec.convert({}, NodeStatus))
    scene.node(fresh)
    scene.node(a_node("n1"))
    assert scene.facts().gpus == 1
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "zones": ["us-east-1b"]}
    known = {"node": {"cpu": "4", "memory": "1", "gpus": 1}}
    scene.pools.pool_changed(None, an_object(POOL, spec, generation=2, status=known))
    scene.no_node("n1")
    assert scene.facts().gpus == 1


def test_who_waits_for_a_pool_that_it_would_fit(scene: Scene) -> None:
    scene.node(a_node())
    scene.pod(a_pod("w0", asked=f"other,{POOL}", age=90))
    scene.pod(a_pod("w1", asked="other"))
    scene.pod(a_pod("w2"))
    assert scene.snapshot().waiting == (NOW - timedelta(seconds=90),)
    assert scene.snapshot().is_asked
    scene.pod(a_pod("w0", "n1", asked=POOL))
    assert not scene.snapshot().is_asked


def test_of_those_who_wait_some_are_turned_down(scene: Scene) -> None:
    scene.node(a_node())
    for name, age in (("w0", 90), ("w1", 30)):
        scene.pod(a_pod(name, asked=POOL, age=age))
    scene.turned_down = {"w1"}
    assert scene.snapshot().turned_down == (NOW - timedelta(seconds=30),)


@pytest.mark.parametrize(
    "demand",
    [
        Demand(Resources(gpus=8)),
        a_demand(nodeSelector={"zone": "moon"}),
        a_demand(nodeSelector={TYPE: "p4d.24xlarge"}),
    ],
)
def test_an_impossible_wish_says_nothing_of_a_pool(scene: Scene, demand: Demand) -> None:
    scene.node(a_node())
    scene.pod(a_pod("w0", asked=POOL))
    scene.turned_down = {"w0"}
    seen = scene.snapshot(demand=demand)
    assert (seen.waiting, seen.turned_down, seen.is_asked) == ((), (), True)


def test_of_an_empty_pool_it_is_known_what_its_nodes_were(scene: Scene) -> None:
    spec = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"], "zones": ["us-east-1b"]}
    node = {"cpu": "4", "memory": "17179869184", "gpus": 1}
    scene.pools.pool_changed(None, an_object("mine", spec, status={"node": node}))
    scene.pod(a_pod("w0", asked="mine"))
    assert len(scene.snapshot("mine").waiting) == 1
    elsewhere = a_demand(nodeSelector={"zone": "moon"})
    assert scene.snapshot("mine", elsewhere).waiting == ()


def test_a_pool_of_nothing_is_no_pool(scene: Scene) -> None:
    scene.node(a_node())
    scene.no_node()
    assert scene.pools.get(POOL) is None
    assert scene.market() == Market()


def test_a_pod_that_is_no_worker_teaches_nothing_of_a_pool(scene: Scene) -> None:
    scene.is_worker = False
    scene.pod(a_pod(asked=POOL, age=90))
    scene.node(a_node(age=30))
    scene.pod(a_pod(asked=POOL, age=90, node="n1"))
    assert scene.pools.news(POOL).provisioned == []


def test_pools_that_nobody_has_are_not_remembered_because_a_pod_names_them(scene: Scene) -> None:
    scene.pod(a_pod(asked=",".join(f"made-up-{number}" for number in range(10_000))))
    assert scene.changed == []


def test_a_worker_that_waits_and_is_gone_waits_no_more(scene: Scene) -> None:
    scene.pod(a_pod("w0", asked=POOL))
    assert Key("ns", "w0") in scene.pools.waiting
    scene.no_pod()
    assert scene.pools.waiting == {}


def test_thousands_of_nodes_cost_a_look_at_their_kinds(scene: Scene) -> None:
    for number in range(300):
        scene.node(a_node(f"n{number}"))
    assert len(scene.pools.room._slots[POOL]) == 1
    assert scene.facts().free_slots == 300
