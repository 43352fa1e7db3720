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

    stores.hear_of(1, f"127.77.200.2:{port}")
    assert stores.spare_port == port
    stores.hear_of(1, f"{HOST}:{port}")
    other = stores.spare_port
    assert other != port
    stores.hear_of(1, f"{HOST}:{port}")
    assert stores.spare_port == other
    assert client(port).get("key") == b"value"
    assert not client(stores.spare_port).check(["key"])


def test_stores_of_older_worlds_are_closed_once_a_newer_one_is_entered() -> None:
    stores = Stores(HOST)
    ports = []
    for world_number in (1, 2):
        ports.append(stores.spare_port)
        stores.hear_of(world_number, f"{HOST}:{ports[-1]}")
    stores.entered(2)

    with pytest.raises(DistNetworkError):
        client(ports[0])
    client(ports[1]).set("key", "value")
    stores.close()
    with pytest.raises(DistNetworkError):
        client(ports[1])


def test_a_missed_world_may_have_used_the_spare_store() -> None:
    stores = Stores(HOST)
    stores.hear_of(3, None)  # the first answer: nothing was missed that knew of this store
    first = stores.spare_port
    stores.hear_of(4, None)
    assert stores.spare_port == first

    stores.hear_of(6, None)
    second = stores.spare_port
    assert second != first

    # The operator had not heard of the second one when it made the next world.
    stores.hear_of(7, f"{HOST}:{first}")
    assert stores.spare_port == second
    stores.entered(7)
    client(first).set("key", "value")
    stores.hear_of(8, f"{HOST}:{second}")
    assert stores.spare_port not in {first, second}
