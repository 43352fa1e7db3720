import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from devcluster import addresses
from devcluster.addresses import Ports, claim_block, free_port, free_ports

HOST = "127.255.0.1"  # in no block


@pytest.fixture(params=["IPv4", "IPv6 and IPv4"])
def taken_everywhere(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port at which something listens at every address."""
    if request.param == "IPv4":
        server = socket.create_server(("", 0))
    elif socket.has_dualstack_ipv6():
        server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        pytest.skip("this machine has no IPv6")
    with server:
        yield server.getsockname()[1]


def test_two_clusters_never_hold_the_same_block() -> None:
    blocks = [claim_block() for _ in range(20)]
    try:
        assert len({block.number for block in blocks}) == 20
    finally:
        for block in blocks:
            block.close()


def test_a_block_on_which_something_listens_is_left_alone() -> None:
    block = claim_block()
    listener = socket.create_server((block.host, 6443))
    block.close()
    others = [claim_block() for _ in range(40)]
    try:
        assert block.number not in {other.number for other in others}
    finally:
        listener.close()
        for other in others:
            other.close()


def test_pods_get_addresses_of_their_own_away_from_the_control_plane() -> None:
    block = claim_block()
    try:
        addresses = [block.pod_address() for _ in range(1000)]
    finally:
        block.close()
    assert len(set(addresses)) == 1000
    assert all(address.startswith(f"127.{block.number}.") for address in addresses)
    assert not any(address.startswith(f"127.{block.number}.0.") for address in addresses)


def test_a_port_that_is_taken_at_every_address_is_replaced(taken_everywhere: int) -> None:
    usual = Ports(api_server=taken_everywhere)
    block = claim_block(usual)
    block.close()
    assert block.ports.api_server != taken_everywhere
    assert replace(block.ports, api_server=taken_everywhere) == usual


def test_a_port_that_is_taken_at_every_address_is_not_free(
    taken_everywhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_TO_CHOOSE_FROM", (taken_everywhere,))
    with pytest.raises(RuntimeError, match=r"127\.255\.0\.1 has no 1 free ports: end what"):
        free_port(HOST)


def test_free_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(HOST, 50)
    assert len(set(ports)) == 50
    for port in ports:
        socket.create_server((HOST, port)).close()
