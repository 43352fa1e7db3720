"""What a pool's next status says, and when it is written."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.capacitypool import (
    Capacity,
    CapacityPoolSpec,
    CapacityPoolStatus,
    PoolNode,
    Price,
)
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus
from spotrun.money.price_history import Quote
from spotrun.money.units import UsdPerHour
from spotrun.policies.pool.lifetimes import Life
from spotrun.policies.pool.policy import (
    EMPTY,
    LIFETIMES_SECONDS,
    PATIENCE_SECONDS,
    TURNED_DOWN_SECONDS,
    WRITE_SECONDS,
    PoolSnapshot,
    again_seconds,
    is_forgotten,
    next_pool,
    seconds_to_write,
)
from tests.support.jobs.builders import NOW, ago, later

SPEC = CapacityPoolSpec(
    instance_types=("g5.xlarge",), zones=("us-east-1b",), capacity=Capacity.SPOT
)
NODE = PoolNode(cpu=Amount("4"), memory=Amount("16000000000"), gpus=1, accelerator="a10g")
HOUR = 3600.0


def a_pool(**facts: Any) -> PoolSnapshot:
    """A pool of a spot instance type that was looked at a minute ago."""
    status = facts.pop("status", CapacityPoolStatus(as_of=Time.of(ago(60))))
    known = {"name": "p", "uid": "u", "version": "7", "spec": SPEC, "is_ours": True, "node": NODE}
    return PoolSnapshot(status=status, **{**known, **facts})


def a_quote(usd_per_hour: str, as_of: datetime | None = None) -> Quote:
    return Quote(UsdPerHour.of(Amount(usd_per_hour)), "a price table", as_of)


def after(pool: PoolSnapshot, seconds: float = 60, **facts: Any) -> PoolSnapshot:
    """The same pool a while later, with the status that followed; NOW is that later moment."""
    earlier = next_pool(pool, ago(seconds))
    return a_pool(status=earlier, **facts)


def available(pool: PoolSnapshot, now: datetime = NOW) -> tuple[str, str | None]:
    status = next_pool(pool, now)
    return str(status.available), status.retry_at


def test_what_is_there_is_counted_and_described() -> None:
    pool = a_pool(lives=(Life(ago(HOUR)), Life(ago(9 * HOUR))), workers=3)
    status = next_pool(pool, NOW)
    assert (status.nodes, status.workers, status.node) == (2, 3, NODE)
    assert (status.types, status.zones) == ("g5.xlarge", "us-east-1b")
    assert status.as_of == Time.of(NOW)
    assert status.empty_since is None


def test_nothing_new_is_no_new_status() -> None:
    pool = after(a_pool(lives=(Life(ago(9 * HOUR)),)), lives=(Life(ago(9 * HOUR)),))
    assert next_pool(pool, NOW) == pool.status


def test_what_is_stored_is_what_was_decided() -> None:
    lives = (Life(ago(HOUR)), Life(ago(9 * HOUR), ago(20), taken=True))
    facts = {"lives": lives, "quote": a_quote("0.42", ago(HOUR)), "provisioned": ((ago(5), 91.4),)}
    status = next_pool(a_pool(**facts, waiting=(ago(2 * HOUR),)), NOW)
    content = json.dumps(status.manifest())
    stored = CapacityPoolStatus.model_validate_json(content, by_alias=True, by_name=False)
    assert stored == status
    again = a_pool(**facts, waiting=(ago(2 * HOUR),), status=stored)
    assert next_pool(again, later(1)) == stored


def test_what_a_node_has_is_remembered_when_the_last_one_is_gone() -> None:
    status = next_pool(after(a_pool(lives=(Life(ago(HOUR)),)), node=None), NOW)
    assert (status.nodes, status.node, status.empty_since) == (0, NODE, Time.of(NOW))


def test_a_price_is_written_down_when_it_changes() -> None:
    said_at = ago(HOUR)
    first = after(a_pool(quote=a_quote("0.42", said_at)), quote=a_quote("0.42", said_at))
    assert first.status.price is not None
    assert first.status.price.usd_per_hour == Amount("0.42")
    assert first.status.price.source == "a price table"
    assert next_pool(first, NOW) == first.status
    dearer = next_pool(a_pool(status=first.status, quote=a_quote("0.5")), NOW).price
    assert dearer is not None
    assert dearer.recent is not None
    assert [(one.time, one.usd_per_hour) for one in dearer.recent] == [
        (Time.of(ago(60)), "0.42"),
        (Time.of(NOW), "0.5"),
    ]


def test_a_price_that_nobody_knows_any_more_is_unknown_but_not_forgotten() -> None:
    pool = after(a_pool(quote=a_quote("0.42")))
    price = next_pool(pool, NOW).price
    assert price is not None
    assert price.usd_per_hour is None
    assert price.recent is not None


def said(seconds_ago: float, usd_per_hour: str = "0.42") -> Quote:
    """What a live source says, which has to speak every quarter of an hour."""
    quote = a_quote(usd_per_hour, ago(seconds_ago))
    return replace(quote, good_for=timedelta(minutes=15))


def test_a_pool_of_unknown_price_names_the_command_that_gives_it_one() -> None:
    unknown = next_pool(a_pool(name="spot-box"), NOW)
    command = """kubectl patch cpool spot-box --type=merge -p '{"spec":{"usdPerHour":"<USD>"}}'"""
    assert unknown.unpriced == command
    known = next_pool(a_pool(name="spot-box", status=unknown, quote=a_quote("0.42")), NOW)
    assert known.unpriced is None
    lost = next_pool(a_pool(name="spot-box", status=known), NOW)
    assert lost.unpriced == command


def price_after(*quotes: tuple[Quote, float]) -> Price:
    """What is written down after looks so many seconds ago."""
    status = CapacityPoolStatus()
    for quote, seconds_ago in quotes:
        status = next_pool(a_pool(status=status, quote=quote), ago(seconds_ago))
    assert status.price is not None
    return status.price


def test_that_a_source_says_the_same_again_is_written_down_every_ten_minutes() -> None:
    first = (said(1200), 1200)
    assert price_after(first, (said(601), 601)).as_of == Time.of(ago(1200))
    assert price_after(first, (said(600), 600)).as_of == Time.of(ago(600))
    assert price_after(first, (said(601, "0.5"), 601)).as_of == Time.of(ago(601))


def test_a_price_is_stale_while_its_source_is_silent_and_counts_on() -> None:
    quote = said(900)
    fresh, stale = price_after((quote, 0)), price_after((quote, 0), (quote, -1))
    assert (fresh.stale, stale.stale) == (None, True)
    assert stale.usd_per_hour == fresh.usd_per_hour
    spoken = price_after((quote, 0), (quote, -1), (said(-2), -2))
    assert (spoken.stale, spoken.as_of) == (None, Time.of(ago(-2)))


def test_when_a_price_becomes_stale_is_a_moment_to_look_again() -> None:
    pool = a_pool(quote=said(840))
    assert again_seconds(pool, next_pool(pool, NOW), NOW) == 60


def test_prices_are_kept_in_bounds() -> None:
    pool = a_pool()
    for number in range(300):
        status = next_pool(a_pool(status=pool.status, quote=a_quote(f"0.{number + 1}")), NOW)
        pool = a_pool(status=status)
    assert pool.status.price is not None
    assert len(pool.status.price.recent or ()) == 256


def test_nothing_is_said_of_what_was_never_asked_for() -> None:
    assert available(a_pool(lives=(Life(ago(HOUR)),))) == ("Unknown", None)


def test_a_new_node_shows_that_there_are_more() -> None:
    assert available(a_pool(lives=(Life(ago(30)),))) == ("True", None)


def test_a_pool_is_dry_when_who_would_fit_has_waited_in_vain() -> None:
    waits = a_pool(waiting=(ago(PATIENCE_SECONDS - 1),))
    assert available(waits) == ("Unknown", None)
    assert again_seconds(waits, next_pool(waits, NOW), NOW) == 1
    dry = a_pool(waiting=(ago(PATIENCE_SECONDS),))
    assert available(dry) == ("False", Time.of(later(600)))


def test_a_pool_is_dry_soon_where_autoscalers_will_make_no_node() -> None:
    def turned_down(seconds: float) -> PoolSnapshot:
        return a_pool(waiting=(ago(seconds),), turned_down=(ago(seconds),))

    early = turned_down(TURNED_DOWN_SECONDS - 1)
    assert available(early) == ("Unknown", None), "another one may yet make it"
    assert again_seconds(early, next_pool(early, NOW), NOW) == 1
    assert available(turned_down(TURNED_DOWN_SECONDS)) == ("False", Time.of(later(600)))


def test_a_node_that_came_since_speaks_against_a_refusal() -> None:
    since = (ago(60),)
    pool = a_pool(
        status=CapacityPoolStatus(as_of=Time.of(ago(5))),
        lives=(Life(ago(10)),),
        waiting=since,
        turned_down=since,
    )
    assert available(pool)[0] == "Unknown"


def test_who_would_fit_no_node_says_nothing_of_the_pool() -> None:
    assert available(a_pool(is_asked=True)) == ("Unknown", None)


def test_it_is_waited_as_long_as_nodes_took_here() -> None:
    status = CapacityPoolStatus(as_of=Time.of(ago(60)), provision_seconds=Amount("90"))
    assert available(a_pool(status=status, waiting=(ago(89),)))[0] == "Unknown"
    assert available(a_pool(status=status, waiting=(ago(90),)))[0] == "False"


def test_a_node_that_came_for_another_begins_the_wait_anew() -> None:
    pool = a_pool(lives=(Life(ago(100)),), waiting=(ago(PATIENCE_SECONDS + 1),))
    assert available(pool)[0] == "Unknown"


def test_a_dry_pool_rests_and_longer_when_it_is_dry_again() -> None:
    waiting = (ago(HOUR),)
    dry = a_pool(status=next_pool(a_pool(waiting=waiting), ago(601)), waiting=waiting)
    assert dry.status.available is ConditionStatus.FALSE
    assert available(dry, ago(10)) == ("False", Time.of(ago(1))), "it rests"
    assert available(dry) == ("False", Time.of(later(1800)))
    asked_again = a_pool(status=dry.status)
    assert available(asked_again)[0] == "Unknown", "nobody asks, so nobody knows"


def test_a_node_ends_the_rest_of_a_dry_pool() -> None:
    status = next_pool(a_pool(waiting=(ago(HOUR),)), ago(120))
    assert available(a_pool(status=status, lives=(Life(ago(30)),))) == ("True", None)


def test_nodes_that_are_taken_together_are_one_interruption() -> None:
    taken = tuple(Life(ago(6 * HOUR), ago(20 - n), taken=True) for n in range(8))
    status = next_pool(a_pool(lives=taken), NOW)
    assert status.interruptions_24h == 1
    (one,) = status.interruptions or ()
    assert (one.time, one.nodes) == (Time.of(ago(20)), 8)
    assert float(one.node_hours) == pytest.approx(48, abs=0.1)
    later_one = Life(ago(6 * HOUR), later(400), taken=True)
    again = next_pool(a_pool(status=status, lives=(later_one,)), later(401))
    assert again.interruptions_24h == 2


def test_what_a_status_holds_is_not_counted_again() -> None:
    lost = (Life(ago(6 * HOUR), ago(20), taken=True),)
    pool = after(a_pool(status=CapacityPoolStatus(as_of=Time.of(ago(90)))), 10, lives=lost)
    assert next_pool(pool, NOW).interruptions_24h == 0
    fresh = a_pool(lives=lost)
    assert next_pool(fresh, NOW).interruptions_24h == 1
    again = a_pool(status=next_pool(fresh, NOW), lives=lost)
    assert next_pool(again, later(60)).interruptions_24h == 1


def test_what_people_gave_back_was_not_taken() -> None:
    assert next_pool(a_pool(lives=(Life(ago(HOUR), ago(1)),)), NOW).interruptions_24h == 0


def test_after_a_day_an_interruption_no_longer_counts_and_the_last_is_remembered() -> None:
    first = next_pool(a_pool(lives=(Life(ago(HOUR), ago(20), taken=True),)), NOW)
    pool = a_pool(status=first)
    assert again_seconds(pool, first, later(86_000)) == pytest.approx(380)
    status = next_pool(pool, later(86_381))
    assert status.interruptions_24h == 0
    assert len(status.interruptions or ()) == 1


@given(st.lists(st.floats(30, 900), min_size=200, max_size=200))
@settings(max_examples=20)
def test_one_in_twenty_nodes_takes_longer(waits: list[float]) -> None:
    times = tuple((NOW, seconds) for seconds in waits * 3)
    learned = next_pool(a_pool(provisioned=times), NOW).provision_seconds
    assert learned is not None
    assert sorted(waits)[150] * 0.6 <= float(learned) <= max(waits)


def test_the_time_that_nodes_take_is_counted_once() -> None:
    pool = a_pool(provisioned=((ago(30), 120.0), (ago(90), 900.0)))
    assert next_pool(pool, NOW).provision_seconds == "120"


def test_a_drought_is_not_the_time_that_a_machine_takes() -> None:
    pool = a_pool(provisioned=((ago(30), 120.0), (ago(20), 3 * HOUR)))
    assert next_pool(pool, NOW).provision_seconds == "120"


def test_writes_are_rare() -> None:
    pool = a_pool(lives=(Life(ago(HOUR)),), written_seconds=10)
    new = next_pool(pool, NOW)
    assert seconds_to_write(pool, new) == WRITE_SECONDS - 10
    assert seconds_to_write(a_pool(status=CapacityPoolStatus(), written_seconds=10), new) == 0


def test_that_nodes_become_older_is_hardly_news() -> None:
    status = next_pool(a_pool(lives=(Life(ago(890)),)), NOW)
    pool = a_pool(status=status, lives=(Life(ago(890)),), written_seconds=60)
    older = next_pool(pool, later(30))
    assert older.lifetimes == "15m 0/1"
    assert seconds_to_write(pool, older) == LIFETIMES_SECONDS - 60


def test_a_pool_that_was_found_is_forgotten_after_a_week_without_a_node() -> None:
    status = next_pool(a_pool(), NOW)
    pool = a_pool(status=status)
    almost = NOW + EMPTY - timedelta(seconds=5)
    assert not is_forgotten(pool, almost)
    assert again_seconds(pool, status, almost) == 5
    assert is_forgotten(pool, NOW + EMPTY)
    for why in ({"is_ours": False}, {"is_asked": True}, {"lives": (Life(NOW),)}, {"workers": 1}):
        assert not is_forgotten(a_pool(status=status, **why), NOW + EMPTY), why
