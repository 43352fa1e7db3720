import socket

from devcluster.addresses import claim_block


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
