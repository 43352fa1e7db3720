from typing import Any, cast
from unittest.mock import Mock

from aiohttp import web

from spotrun.http.connection_limits import Limits, Visits
from spotrun.http.rate_limit import Rate


def visits(**limits: Any) -> Visits:
    return Visits(Limits(**limits), clock=lambda: 0.0)


def connection() -> web.RequestHandler:
    return cast("web.RequestHandler", Mock())


def is_hung_up(protocol: web.RequestHandler) -> bool:
    return bool(cast("Mock", protocol).transport.abort.called)


def test_strangers_are_limited_by_address() -> None:
    here = visits(strangers_per_address=2)

    for _ in range(2):
        assert here.may_come("10.6.6.6")
        here.arrived("10.6.6.6", connection())

    assert not here.may_come("10.6.6.6")
    assert here.may_come("10.0.0.1")


def test_who_is_known_is_no_stranger_any_more() -> None:
    here = visits(strangers_per_address=1)
    known = connection()
    here.arrived("10.0.0.1", known)

    here.introduced(known, "pod-1")

    assert here.may_come("10.0.0.1")
    assert (len(here), here.num_strangers) == (1, 0)


def test_who_left_makes_room() -> None:
    here = visits(strangers_per_address=1)
    first = connection()
    here.arrived("10.0.0.1", first)

    here.left(first)
    here.left(first)

    assert here.may_come("10.0.0.1")
    assert (len(here), here.num_strangers) == (0, 0)


def test_all_together_are_limited() -> None:
    here = visits(connections=3)
    for number in range(3):
        protocol = connection()
        here.arrived(f"10.0.0.{number}", protocol)
        here.introduced(protocol, f"pod-{number}")

    assert not here.may_come("10.0.0.9")


def test_strangers_leave_room_for_those_who_are_known() -> None:
    here = visits(connections=10, strangers=2)
    protocols = [connection() for _ in range(3)]
    for number, protocol in enumerate(protocols[:2]):
        here.arrived(f"10.0.0.{number}", protocol)

    assert not here.may_come("10.0.0.9")
    here.introduced(protocols[0], "pod-0")
    assert here.may_come("10.0.0.9")


def test_a_crowd_gives_way_to_addresses_that_have_few() -> None:
    here = visits(strangers=20, strangers_per_address=16)
    crowd = [connection() for _ in range(16)]
    for protocol in crowd:
        here.arrived("10.6.6.6", protocol)
    for number in range(4):
        here.arrived(f"10.6.6.{number}", connection())

    assert not here.may_come("10.6.6.6")
    assert here.may_come("10.0.0.1")
    here.arrived("10.0.0.1", connection())
    assert not here.may_come("10.0.0.1")  # its second is no longer so much fewer
    assert [is_hung_up(protocol) for protocol in crowd] == [True] + [False] * 15
    assert here.num_strangers == 20


def test_workers_of_a_node_do_not_give_way_to_each_other() -> None:
    here = visits(strangers=8)
    for number in range(4):
        for _ in range(2):
            here.arrived(f"10.0.0.{number}", connection())

    assert not here.may_come("10.0.0.9")


def test_arrivals_are_limited_by_address() -> None:
    here = visits(arrivals_per_address=Rate(per_second=1, burst=3))

    came = [here.may_come("10.6.6.6") for _ in range(5)]

    assert came == [True] * 3 + [False] * 2
    assert here.may_come("10.0.0.1")


def test_a_workers_oldest_connection_gives_way() -> None:
    here = visits(connections_per_worker=2)
    protocols = [connection() for _ in range(3)]
    for protocol in protocols:
        here.arrived("10.0.0.1", protocol)
        here.introduced(protocol, "pod-1")

    assert [is_hung_up(protocol) for protocol in protocols] == [True, False, False]


def test_a_connection_may_change_its_worker_but_counts_once() -> None:
    here = visits()
    protocol = connection()
    here.arrived("10.0.0.1", protocol)

    for pod in ("pod-1", "pod-1", "pod-2"):
        here.introduced(protocol, pod)
    here.left(protocol)

    assert here._of_worker == {}
    assert here._strangers == {}


def test_all_can_be_sent_away() -> None:
    here = visits()
    protocols = [connection() for _ in range(3)]
    for protocol in protocols:
        here.arrived("10.0.0.1", protocol)

    here.close_all()

    assert all(map(is_hung_up, protocols))
