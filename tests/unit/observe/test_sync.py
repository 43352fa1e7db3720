"""What several caches show together, some of them of one resource."""

import asyncio
from typing import Any

import msgspec
import pytest

from spotrun.kube.resource import Key, Meta, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Reflector
from spotrun.observe.kube_objects import CONFIG_MAPS, EVENTS
from spotrun.observe.sync import BLIND_SECONDS, Following
from tests.unit.kube.scripted import ScriptedTransport

THINGS, OTHERS = Resource("x.io", "v1", "things"), Resource("x.io", "v1", "others")
A = Key("", "a")


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def follower(clock: Clock, resource: Resource, version: int, listed_at: float) -> Reflector[Any]:
    """A cache that has come to this version, and shows object `a` as it was then."""
    client = Client(ScriptedTransport(lambda *_: None), field_manager="test")
    made = Reflector(client, Selection(resource), Thing, lambda *_: None, clock=clock)
    made.store.put(Thing(Meta(name="a", uid="a", resource_version=str(version))))
    made.last_version, made.listed_at = version, listed_at
    made._relist_at = float("inf")
    made.synced.set()
    return made


def test_of_several_caches_of_a_resource_the_one_that_is_behind_counts(clock: Clock) -> None:
    parts = {
        "first": follower(clock, THINGS, version=7, listed_at=900.0),
        "second": follower(clock, THINGS, version=5, listed_at=950.0),
        "third": follower(clock, THINGS, version=9, listed_at=990.0),
        "other": follower(clock, OTHERS, version=3, listed_at=800.0),
    }
    caches = Following(parts)

    assert (caches.last_version(THINGS), caches.last_version(OTHERS)) == (5, 3)
    assert (caches.version_of(THINGS, A), caches.version_of(OTHERS, A)) == (5, 3)
    assert (caches.listed_at(THINGS), caches.listed_at(OTHERS)) == (900.0, 800.0)
    caches.relist(THINGS)
    assert [one._relist_at for one in parts.values()] == [clock.now] * 3 + [float("inf")]


def test_of_what_nobody_follows_no_version_is_awaited(clock: Clock) -> None:
    caches = Following({"other": follower(clock, OTHERS, version=3, listed_at=800.0)})
    assert caches.last_version(THINGS) == 2**63
    assert caches.version_of(THINGS, A) is None
    assert caches.listed_at(THINGS) == float("inf")


def test_it_is_said_who_is_blind(clock: Clock) -> None:
    thing = follower(clock, THINGS, version=7, listed_at=900.0)
    caches = Following({"things": thing})
    assert caches.blind() is None

    thing.refusals = 1
    assert "things: the API server shows an older state" in (caches.blind() or "")
    thing.refusals = 0
    clock.now += BLIND_SECONDS + 1
    assert caches.blind() == "things: the API server sent nothing for 121 s"


async def test_that_one_of_them_went_back_is_told(clock: Clock) -> None:
    things, others = (follower(clock, one, 7, 900.0) for one in (THINGS, OTHERS))
    caches = Following({"things": things, "others": others})
    assert not caches.rewound.is_set()
    others.rewound()
    await asyncio.wait_for(caches.rewound.wait(), 1)


@pytest.mark.parametrize("hint", [EVENTS, CONFIG_MAPS], ids=str)
async def test_what_only_betters_decisions_makes_nobody_blind_and_ends_no_reign(
    clock: Clock, hint: Resource
) -> None:
    things, hints = (follower(clock, one, 7, 900.0) for one in (THINGS, hint))
    caches = Following({"things": things, "hints": hints})

    hints.refusals = 1
    assert caches.blind() is None
    hints.rewound()
    assert not caches.rewound.is_set()

    hints.refusals = 0
    clock.now += BLIND_SECONDS + 1
    things._heard_at = clock.now
    assert caches.blind() is None
