"""Loopback addresses and ports: each cluster owns one 127.A.0.0/16, so clusters never collide.

It also avoids ports of servers that listen at every address, such as those of other users.
"""

import ipaddress
import random
import socket
from collections.abc import Iterator
from dataclasses import astuple, dataclass

_NOBODYS = "127.255.255.254"
"""An address in no block: a server that listens here listens everywhere."""

_TO_CHOOSE_FROM = range(10_000, 32_768)
"""Below the ports that Linux gives to connections and to requests for any port: no other process
gets one of these by chance before the process for which it was chosen listens."""


@dataclass(frozen=True)
class Ports:
    """The ports of a control plane and its kubelets, all at the block's first address."""

    etcd: int = 2379
    etcd_peers: int = 2380
    api_server: int = 6443
    kubelets: int = 10250


class AddressBlock:
    """One 127.A.0.0/16, reserved against other clusters in this network namespace until closed.

    The claim is an abstract unix socket: like the loopback interface it belongs to the network
    namespace. It needs no file, and the kernel frees it, however its owner ends.
    """

    def __init__(self, number: int, claim: socket.socket, ports: Ports) -> None:
        self.number = number
        self.ports = ports
        self._claim = claim
        self._hosts = _pod_addresses(number)

    @property
    def host(self) -> str:
        """The address at which the control plane and the kubelets' server listen."""
        return f"127.{self.number}.0.1"

    def pod_address(self) -> str:
        """Return an address that no pod of this cluster had (after 65,000 pods they repeat)."""
        return next(self._hosts)

    def close(self) -> None:
        """Give the block back."""
        self._claim.close()


def claim_block(usual: Ports = Ports()) -> AddressBlock:
    """Claim a block that no cluster holds and on which nothing listens."""
    shared = {port for port in astuple(usual) if not _is_free(_NOBODYS, port)}
    numbers = list(range(16, 255))  # many programs use 127.0.x.y and its neighbours
    random.shuffle(numbers)
    for number in numbers:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0spotrun-devcluster-127.{number}")
        except OSError:
            claim.close()
            continue
        host = f"127.{number}.0.1"
        if all(_is_free(host, port) for port in astuple(usual) if port not in shared):
            others = iter(free_ports(host, len(shared)))
            ports = (next(others) if port in shared else port for port in astuple(usual))
            return AddressBlock(number, claim, Ports(*ports))
        claim.close()
    raise RuntimeError("every loopback block 127.16-254 is in use: end some clusters first")


def free_port(host: str) -> int:
    """Return a port of an address on which nothing listens, there or at every address."""
    return free_ports(host, 1)[0]


def free_ports(host: str, count: int) -> list[int]:
    """Return several different ports of an address on which nothing listens."""
    found: list[int] = []
    for port in random.sample(_TO_CHOOSE_FROM, len(_TO_CHOOSE_FROM)):
        if len(found) == count:
            return found
        if _is_free(host, port):
            found.append(port)
    raise RuntimeError(f"{host} has no {count} free ports: end what listens there")


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
