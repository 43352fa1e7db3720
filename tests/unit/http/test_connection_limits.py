from typing import Any, cast
from unittest.mock import Mock

from aiohttp import web

from spotrun.http.connection_limits import Connections, Limits
from spotrun.http.rate_limit import Rate


def connections(**limits: Any) -> Connections:
    return Connections(Limits(**limits), clock=lambda: 0.0)


def connection() -> web.RequestHandler:
    return cast("web.RequestHandler", Mock())


def is_hung_up(protocol: web.RequestHandler) -> bool:
    return bool(cast("Mock", protocol).transport.abort.called)


def test_strangers_are_limited_by_address() -> None:
    here = connections(unauthenticated_per_address=2)

    for _ in range(2):
        assert here.may_connect("10.6.6.6")
        here.add("10.6.6.6", connection())

    assert not here.may_connect("10.6.6.6")
    assert here.may_connect("10.0.0.1")


def test_who_is_known_is_no_stranger_any_more() -> None:
    here = connections(unauthenticated_per_address=1)
    known = connection()
    here.add("10.0.0.1", known)

    here.authenticate(known, "pod-1")

    assert here.may_connect("10.0.0.1")
    assert (len(here), here.num_unauthenticated) == (1, 0)


def test_who_left_makes_room() -> None:
    here = connections(unauthenticated_per_address=1)
    first = connection()
    here.add("10.0.0.1", first)

    here.remove(first)
    here.remove(first)

    assert here.may_connect("10.0.0.1")
    assert (len(here), here.num_unauthenticated) == (0, 0)


def test_all_together_are_limited() -> None:
    here = connections(connections=3)
    for number in range(3):
        protocol = connection()
        here.add(f"10.0.0.{number}", protocol)
        here.authenticate(protocol, f"pod-{number}")

    assert not here.may_connect("10.0.0.9")


def test_strangers_leave_room_for_those_who_are_known() -> None:
    here = connections(connections=10, unauthenticated=2)
    protocols = [connection() for _ in range(3)]
    for number, protocol in enumerate(protocols[:2]):
        here.add(f"10.0.0.{number}", protocol)

    assert not here.may_connect("10.0.0.9")
    here.authenticate(protocols[0], "pod-0")
    assert here.may_connect("10.0.0.9")


def test_a_crowd_gives_way_to_addresses_that_have_few() -> None:
    here = connections(unauthenticated=20, unauthenticated_per_address=16)
    crowd = [connection() for _ in range(16)]
    for protocol in crowd:
        here.add("10.6.6.6", protocol)
    for number in range(4):
        here.add(f"10.6.6.{number}", connection())

    assert not here.may_connect("10.6.6.6")
    assert here.may_connect("10.0.0.1")
    here.add("10.0.0.1", connection())
    assert not here.may_connect("10.0.0.1")  # its second is no longer so much fewer
    assert [is_hung_up(protocol) for protocol in crowd] == [True] + [False] * 15
    assert here.num_unauthenticated == 20


def test_workers_of_a_node_do_not_give_way_to_each_other() -> None:
    here = connections(unauthenticated=8)
    for number in range(4):
        for _ in range(2):
            here.add(f"10.0.0.{number}", connection())

    assert not here.may_connect("10.0.0.9")


def test_arrivals_are_limited_by_address() -> None:
    here = connections(arrivals_per_address=Rate(per_second=1, burst=3))

    came = [here.may_connect("10.6.6.6") for _ in range(5)]

    assert came == [True] * 3 + [False] * 2
    assert here.may_connect("10.0.0.1")


def test_a_workers_oldest_connection_gives_way() -> None:
    here = connections(connections_per_worker=2)
    protocols = [connection() for _ in range(3)]
    for protocol in protocols:
        here.add("10.0.0.1", protocol)
        here.authenticate(protocol, "pod-1")

    assert [is_hung_up(protocol) for protocol in protocols] == [True, False, False]


def test_a_connection_may_change_its_worker_but_counts_once() -> None:
    here = connections()
    protocol = connection()
    here.add("10.0.0.1", protocol)

    for pod in ("pod-1", "pod-1", "pod-2"):
        here.authenticate(protocol, pod)
    here.remove(protocol)

    assert here._of_worker == {}
    assert here._unauthenticated == {}


def test_all_can_be_sent_away() -> None:
    here = connections()
    protocols = [connection() for _ in range(3)]
    for protocol in protocols:
        here.add("10.0.0.1", protocol)

    here.close_all()

    assert all(map(is_hung_up, protocols))
