import socket
from datetime import timedelta

import pytest
from torch.distributed import DistNetworkError, TCPStore  # type: ignore[attr-defined]

from spotrun_trainer.agent.stores import Stores

HOST = "127.77.200.1"
SHORTLY = timedelta(seconds=1)


def client(port: int) -> TCPStore:
    return TCPStore(HOST, port, is_master=False, timeout=SHORTLY)


def test_a_spare_store_serves_at_the_pods_address_only() -> None:
    stores = Stores(HOST)
    client(stores.spare_port).set("key", "value")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.77.200.2", stores.spare_port), timeout=1)


def test_the_spare_store_is_handed_out_once() -> None:
    stores = Stores(HOST)
    port = stores.spare_port
    client(port).set("key", "value")

    assert not stores.hand_out(f"127.77.200.2:{port}", 1)
    assert stores.hand_out(f"{HOST}:{port}", 1)
    assert stores.spare_port != port
    assert not stores.hand_out(f"{HOST}:{port}", 1)
    assert client(port).get("key") == b"value"
    assert not client(stores.spare_port).check(["key"])


def test_stores_of_older_worlds_are_closed_once_a_newer_one_is_entered() -> None:
    stores = Stores(HOST)
    ports = []
    for world_number in (1, 2):
        ports.append(stores.spare_port)
        stores.hand_out(f"{HOST}:{ports[-1]}", world_number)
    stores.entered(2)

    with pytest.raises(DistNetworkError):
        client(ports[0])
    client(ports[1]).set("key", "value")
    stores.close()
    with pytest.raises(DistNetworkError):
        client(ports[1])
