import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from devcluster.addresses import claim_block
from spotrun_trainer.agent.heartbeat import (
    PORT,
    SILENT_SECONDS,
    UNHEARD_SECONDS,
    Heartbeats,
    Ring,
)
from tests.unit.trainer.agent.builders import a_world


def ring(place: int, workers: int = 4, *, world_number: int = 7, secret: bytes = b"s") -> Ring:
    return Ring(world_number, place, workers, secret)


@pytest.mark.parametrize(
    ("place", "workers", "expected"),
    [(0, 1, set()), (0, 2, {1}), (1, 2, {0}), (0, 3, {1, 2}), (2, 4, {1, 3}), (3, 4, {2, 0})],
)
def test_neighbours_are_before_and_after(place: int, workers: int, expected: set[int]) -> None:
    assert ring(place, workers).neighbours == expected


def test_places_are_those_of_workers_not_of_processes() -> None:
    found = Ring.of(a_world(7, rank=16, size=32, processes=8), 0.0)
    assert (found.world_number, found.place, found.workers) == (7, 2, 4)


def test_a_neighbour_that_falls_silent_is_suspected_until_it_is_heard_again() -> None:
    mine, other = ring(1), ring(2)
    mine.hear(other.beat(1), now=10.0)

    assert mine.suspects(10.0 + SILENT_SECONDS) == ()
    assert mine.suspects(10.1 + SILENT_SECONDS) == (2,)
    mine.hear(other.beat(2), now=12.0)
    assert mine.suspects(12.1) == ()


def test_who_was_never_heard_is_suspected_for_a_while_after_a_world_began() -> None:
    """It may have been lost right then; for good, it may be that no datagram comes through."""
    mine = Ring.of(a_world(7, rank=1, size=4), 10.0)
    mine.hear(Ring.of(a_world(7, rank=0, size=4), 10.0).beat(1), now=12.0)
    assert mine.suspects(10.0 + SILENT_SECONDS) == ()
    assert mine.suspects(10.1 + SILENT_SECONDS) == (2,)
    mine.hear(Ring.of(a_world(7, rank=0, size=4), 10.0).beat(2), now=17.0)
    assert mine.suspects(10.0 + UNHEARD_SECONDS) == ()


def test_in_a_world_that_is_only_prepared_nobody_is_missed() -> None:
    assert Ring.of(a_world(7, size=4, switch=False), 10.0).suspects(13.0) == ()


def test_who_is_not_heard_once_a_prepared_world_is_entered_is_missed(hosts: list[str]) -> None:
    told: queue.Queue[tuple[int, tuple[int, ...]]] = queue.Queue()
    mine = Heartbeats(hosts[0], lambda *found: told.put(found))
    mine.follow(a_world(3, switch=False))
    mine.follow(a_world(3))
    assert told.get(timeout=5) == (3, (1,))
    mine.close()


def test_both_neighbours_may_be_gone() -> None:
    mine = ring(0)
    for place in (1, 3):
        mine.hear(ring(place).beat(1), now=10.0)
    assert mine.suspects(20.0) == (1, 3)


@pytest.mark.parametrize(
    "datagram",
    [
        pytest.param(ring(2, secret=b"guessed").beat(9), id="of a stranger"),
        pytest.param(ring(2, world_number=6).beat(9), id="of an older world"),
        pytest.param(ring(2, world_number=8).beat(9), id="of a newer world"),
        pytest.param(ring(3).beat(9), id="of somebody else in the ring"),
        pytest.param(ring(1).beat(9), id="its own, sent back"),
        pytest.param(ring(2).beat(5), id="repeated"),
        pytest.param(ring(2).beat(4), id="late"),
        pytest.param(ring(2).beat(9)[:-1], id="cut"),
        pytest.param(ring(2).beat(9) + b"x", id="too long"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_proves_no_life_counts_for_nothing(datagram: bytes) -> None:
    mine = ring(1)
    mine.hear(ring(2).beat(5), now=10.0)
    mine.hear(datagram, now=12.0)
    assert mine.suspects(12.0) == (2,)


def test_who_did_not_run_itself_suspects_nobody() -> None:
    mine = ring(1)
    mine.hear(ring(2).beat(5), now=10.0)
    mine.excuse(100.0)
    assert mine.suspects(101.0) == ()
    assert mine.suspects(102.0) == (2,)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Loopback addresses that no other test uses, those of other processes included."""
    block = claim_block()
    yield [block.pod_address(), block.pod_address()]
    block.close()


def test_neighbours_hear_each_other_and_one_is_missed(hosts: list[str]) -> None:
    told: queue.Queue[tuple[int, tuple[int, ...]]] = queue.Queue()
    mine = Heartbeats(hosts[0], lambda *found: told.put(found))
    other = Heartbeats(hosts[1], lambda *_found: None)
    mine.follow(a_world(3, rank=0, neighbours=(hosts[1],)))
    other.follow(a_world(3, rank=1, neighbours=(hosts[0],)))
    heard = mine._ring._heard
    for _ in range(100):
        if heard:
            break
        threading.Event().wait(0.02)
    other.close()

    assert told.get(timeout=5) == (3, (1,))
    mine.close()
    assert told.empty()


def test_suspicion_ends_with_the_world(hosts: list[str]) -> None:
    told: queue.Queue[tuple[int, tuple[int, ...]]] = queue.Queue()
    mine = Heartbeats(hosts[0], lambda *found: told.put(found))
    mine.follow(a_world(3))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        ring_of_other = Ring.of(a_world(3, rank=1), 0.0)
        other.sendto(ring_of_other.beat(1), (hosts[0], PORT))
    assert told.get(timeout=5) == (3, (1,))
    mine.follow(a_world(4))
    assert told.get(timeout=5) == (4, ())
    mine.close()


def test_a_port_in_use_costs_heartbeats_only(
    hosts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = Heartbeats(hosts[0], lambda *_: None)
    second = Heartbeats(hosts[0], lambda *_: None)
    second.follow(a_world(3))
    second.close()
    first.close()

    (said,) = caplog.messages
    assert f"cannot listen at {hosts[0]} port {PORT}" in said
