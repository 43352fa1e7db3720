"""Loopback addresses: each cluster owns one 127.A.0.0/16, so usual ports never collide."""

import ipaddress
import random
import socket
from collections.abc import Iterator

_PORTS = (2379, 2380, 6443, 10250)
"""What a control plane and its kubelets listen on, all at the block's first address."""


class AddressBlock:
    """One 127.A.0.0/16, held against every other cluster in this network namespace until closed.

    The claim is an abstract unix socket: like the loopback interface it belongs to the network
    namespace, needs no file, and is given back by the kernel however its owner ends.
    """

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number = number
        self._claim = claim
        self._hosts = _pod_addresses(number)

    @property
    def host(self) -> str:
        """Where the control plane and the kubelets' server listen."""
        return f"127.{self.number}.0.1"

    def pod_address(self) -> str:
        """An address that no pod of this cluster had before (65,000 pods a cluster, then anew)."""
        return next(self._hosts)

    def close(self) -> None:
        """Give the block back."""
        self._claim.close()


def claim_block() -> AddressBlock:
    """Claim a block that nobody holds and on which nothing listens."""
    numbers = list(range(16, 255))  # 127.0.x.y and its neighbours are everybody's favourite
    random.shuffle(numbers)
    for number in numbers:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0spotrun-devcluster-127.{number}")
        except OSError:
            claim.close()
            continue
        if all(_is_free(f"127.{number}.0.1", port) for port in _PORTS):
            return AddressBlock(number, claim)
        claim.close()
    raise RuntimeError("every loopback block 127.16-254 is in use: end some clusters first")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _pod_addresses(number: int) -> Iterator[str]:
    block = ipaddress.ip_network(f"127.{number}.0.0/16")
    while True:
        for address in block.hosts():
            if address.packed[2] > 0:  # the first 255 are the cluster's own
                yield str(address)
