from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.kube.resource import Meta
from spotrun.kube.rest.client import Client
from spotrun.money.price_history import EVER, NodePrice, PriceChange, Quote
from spotrun.money.price_rows import Offering
from spotrun.money.price_sources import FROM_NODE, Catalog
from spotrun.money.price_table import PriceTable
from spotrun.money.units import UsdPerHour
from spotrun.observe.kube_objects import ConfigMapObject
from spotrun.observe.prices.aws import aws_questions
from spotrun.observe.prices.live import LivePrices
from spotrun.observe.prices.node_prices import MOST_CHANGES, Prices
from spotrun.observe.prices.tables import PriceSources, PriceTables, catalog_of, tables_of
from spotrun.state.snapshot import Node
from tests.unit.kube.scripted import ScriptedTransport

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SHEET = """instanceType,region,zone,capacity,usdPerHour
m5.large,,,Spot,0.04
m5.large,,,OnDemand,0.1
"""
BORN = Node("n1", instance_type="m5.large", capacity=Capacity.SPOT, created_at=START)


class Watch:
    """The moment it is, and what pools cost."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.now = START
        self.pools: dict[str, NodePrice] = {}
        known = catalog or Catalog((PriceTable.parse(SHEET, "sheet"),))
        self.prices = Prices(self.pools.get, lambda: self.now, known)

    def look(self, node: Node, after: float = 0.0) -> list[tuple[datetime, str]]:
        self.now += timedelta(seconds=after)
        changes = self.prices.priced(node).prices.changes
        return [(moment, str(price and price.decimal.normalize())) for moment, price in changes]


def stated(usd_per_hour: str) -> Node:
    return replace(BORN, stated_price=usd_per_hour)


def test_the_nodes_own_price_counts_before_its_pools_and_that_before_a_table() -> None:
    watch = Watch()
    watch.pools["p"] = NodePrice(usd_per_hour=UsdPerHour(2))
    assert watch.look(replace(stated("3"), pool="p")) == [(EVER, "3")]
    assert watch.look(replace(BORN, name="n2", pool="p")) == [(EVER, "2")]
    assert watch.look(replace(BORN, name="n3", pool="unknown")) == [(EVER, "0.04")]
    assert watch.look(replace(BORN, name="n4", instance_type="unheard-of")) == []


def test_what_the_other_nodes_of_its_pool_state_is_no_price_of_a_node_that_states_none() -> None:
    watch = Watch()
    watch.pools["p"] = NodePrice(usd_per_hour=UsdPerHour(2), source=FROM_NODE)
    assert watch.look(replace(BORN, pool="p")) == [(EVER, "0.04")]
    assert watch.look(replace(BORN, name="n2", pool="p", instance_type="unheard-of")) == []


def test_a_stated_price_that_cannot_be_read_is_no_price_nor_is_that_of_pool_or_table() -> None:
    watch = Watch()
    watch.pools["p"] = NodePrice(usd_per_hour=UsdPerHour(2))
    assert watch.look(replace(stated("1,5"), pool="p")) == []
    assert watch.look(replace(stated("1,5"), name="n2")) == []


def test_a_stated_price_that_becomes_unreadable_goes_on_as_it_was() -> None:
    watch = Watch()
    watch.look(stated("3"))
    assert watch.look(stated("3 USD"), after=60) == [(EVER, "3")]


def test_a_price_that_changes_does_so_when_it_is_seen_to() -> None:
    watch = Watch()
    assert watch.look(stated("3")) == [(EVER, "3")]
    assert watch.look(stated("3"), after=60) == [(EVER, "3")]
    changed = [(EVER, "3"), (START + timedelta(seconds=120), "5")]
    assert watch.look(stated("5"), after=60) == changed
    assert watch.look(stated("5"), after=60) == changed


def test_a_price_that_nobody_knows_any_more_goes_on() -> None:
    watch = Watch()
    node = replace(stated("3"), instance_type="")
    watch.look(node)
    assert watch.look(replace(node, stated_price=None), after=60) == [(EVER, "3")]


def test_another_table_is_another_price_from_then_on() -> None:
    watch = Watch()
    watch.look(BORN)
    watch.prices.catalog = Catalog((PriceTable.parse(SHEET.replace("0.04", "0.05"), "sheet"),))
    assert watch.look(BORN, after=60)[-1] == (START + timedelta(seconds=60), "0.05")


def test_pools_tell_by_themselves_when_their_price_changed() -> None:
    watch = Watch()
    recent = tuple(
        PriceChange(START - timedelta(hours=hours), UsdPerHour(usd))
        for hours, usd in ((9, 2), (2, 4))
    )
    watch.pools["p"] = NodePrice(usd_per_hour=UsdPerHour(4), recent=recent)
    node = replace(BORN, pool="p")
    assert watch.look(node) == [(EVER, "2"), (START - timedelta(hours=2), "4")]


def test_of_a_node_that_is_gone_the_last_that_was_known_is_kept() -> None:
    watch = Watch()
    watch.look(stated("3"))
    watch.now += timedelta(seconds=60)
    gone = watch.prices.priced(replace(BORN, gone=True, ready=False))
    assert (gone.gone, gone.gone_at) == (True, watch.now)
    assert gone.prices.at(watch.now) == UsdPerHour(3)
    watch.now += timedelta(seconds=60)
    assert watch.prices.priced(Node("n1", gone=True)).gone_at == gone.gone_at


def test_a_node_that_was_gone_before_we_came_is_gone_since_it_was_missed_first() -> None:
    watch = Watch()
    assert watch.look(Node("n1")) == []
    watch.now += timedelta(seconds=10)
    assert watch.prices.priced(Node("n1", gone=True)).gone_at == START


def test_the_past_of_a_node_outlives_many_others_while_somebody_looks_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spotrun.observe.prices.node_prices.MOST_NODES", 2)
    watch = Watch()
    watch.look(stated("3"))
    changed = watch.look(stated("5"), after=60)
    for number in range(5):
        watch.look(replace(BORN, name=f"other-{number}"))
        watch.look(Node(f"never-seen-{number}"))
        assert watch.look(stated("5")) == changed == [(EVER, "3"), (START + MINUTE, "5")]
    assert len(watch.prices._known) == len(watch.prices._missed_at) == 2


def test_another_node_of_the_same_name_has_no_past() -> None:
    watch = Watch()
    watch.look(stated("3"))
    again = replace(stated("5"), created_at=START + timedelta(hours=1))
    assert watch.look(again) == [(EVER, "5")]


def test_a_price_that_changes_all_the_time_is_remembered_for_a_while() -> None:
    watch = Watch()
    for number in range(3 * MOST_CHANGES):
        changes = watch.look(stated(str(number)), after=1)
    assert len(changes) == MOST_CHANGES


def test_the_like_of_a_node_on_demand_has_a_price_too() -> None:
    assert Watch().prices.priced(BORN).on_demand_usd_per_hour == UsdPerHour(Decimal("0.1"))


def a_config_map(**data: str) -> ConfigMapObject:
    return ConfigMapObject(Meta(name="spotrun-prices", namespace="home"), data)


def test_tables_of_the_cluster_come_before_the_built_in_ones() -> None:
    own = tables_of(a_config_map(b=SHEET, a=SHEET))
    sources = [table.source for table in catalog_of(own, [PriceTable("a cloud")]).tables]
    built_in = [table.source for table in catalog_of().tables]
    named = ["a of ConfigMap home/spotrun-prices", "b of ConfigMap home/spotrun-prices"]
    assert sources == [*named, "a cloud", *built_in]


def test_a_cloud_that_has_not_answered_yet_is_believed_in_what_it_said_before() -> None:
    asked = LivePrices(
        ["us-east-1"], aws_questions(lambda: START), clock=lambda: 0.0, roll=lambda: 0.0
    )
    client = Client(ScriptedTransport(lambda *_: None), field_manager="test")
    sources = PriceSources(live=(asked,))
    tables = PriceTables(client, sources, offered=lambda: (), changed=lambda _: None)
    said = Quote(UsdPerHour(Decimal("0.04")), "AWS spot prices", START)
    wanted = Offering("m5.large", Capacity.SPOT, "us-east-1", "us-east-1a")
    kept = tables.catalog.quote(wanted, last=said)
    assert kept == replace(said, good_for=timedelta(minutes=15))
    assert tables.catalog.quote(wanted) is None


def test_what_is_wrong_in_a_table_is_logged_and_costs_the_rest_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = SHEET + "m5.xlarge,,,Spot,dear\n"
    assert [len(table.rows) for table in tables_of(a_config_map(a="no, table", b=broken))] == [2]
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("a of ConfigMap home/spotrun-prices is no price table: ")
    assert second.startswith("b of ConfigMap home/spotrun-prices: line 4: usdPerHour must be")
