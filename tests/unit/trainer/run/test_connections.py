"""The connections of a group: what belongs to them, and how it shows that a peer has left."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from spotrun_trainer.connections import Connections
from spotrun_trainer.group import _KEPT, Group, _Work
from spotrun_trainer.lost import PeerLostError


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def connect(sockets: ExitStack) -> tuple[socket.socket, socket.socket]:
    """This process's end of a connection, and the other one."""
    listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
    own = sockets.enter_context(socket.create_connection(listening.getsockname()))
    other = sockets.enter_context(listening.accept()[0])
    return own, other


def test_a_peer_that_closes_its_end_has_left(sockets: ExitStack) -> None:
    connections = Connections()
    connections.begin()
    _, peer = connect(sockets)
    connections.complete()
    assert not connections.are_left
    peer.close()
    assert connections.are_left


def test_a_connection_that_was_closed_here_leads_to_nobody(sockets: ExitStack) -> None:
    connections = Connections()
    connections.begin()
    own, _ = connect(sockets)
    connections.complete()
    own.close()
    assert connections.are_left


def test_the_store_may_go_and_so_may_what_is_not_the_groups(sockets: ExitStack) -> None:
    connections = Connections()
    before = connect(sockets)
    connections.begin()
    store = connect(sockets)
    connections.met()
    connect(sockets)
    connections.complete()
    after = connect(sockets)
    for _, other in (before, store, after):
        other.close()
    assert not connections.are_left


class Forgotten:
    """A collective of which gloo has not noticed that it cannot end."""

    is_timed_out = False

    def wait(self, _timeout: object) -> None:
        raise RuntimeError("timed out")

    def is_completed(self) -> bool:
        return self.is_timed_out


def test_a_collective_is_not_waited_for_once_a_peer_has_left(sockets: ExitStack) -> None:
    connections = Connections()
    connections.begin()
    _, peer = connect(sockets)
    connections.complete()
    peer.close()
    with pytest.raises(PeerLostError, match="have ended"):
        _Work(Forgotten(), connections, is_on_gpu=False).wait()


def test_a_group_whose_collective_does_not_end_is_kept_until_it_has() -> None:
    backend, work = SimpleNamespace(), Forgotten()
    group = Group(size=2, backend=backend)
    group._begun.append(work)
    group.close()
    Group().close()
    assert (backend, [work]) in _KEPT
    work.is_timed_out = True
    Group().close()
    assert (backend, [work]) not in _KEPT
