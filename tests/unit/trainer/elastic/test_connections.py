"""The connections of a group: what belongs to them, and how it shows that a peer has left."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from spotrun_trainer.elastic.connections import Connections, _sockets
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import _KEPT, Work
from spotrun_trainer.elastic.process_group import Group

PATIENCE_SECONDS = 20.0


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
    connections.complete(2)
    assert not connections.are_left
    peer.close()
    assert connections.are_left


def test_a_connection_that_was_closed_here_leads_to_nobody(sockets: ExitStack) -> None:
    connections = Connections()
    connections.begin()
    own, _ = connect(sockets)
    connections.complete(2)
    own.close()
    assert connections.are_left


def test_the_store_may_go_and_so_may_what_is_not_the_groups(sockets: ExitStack) -> None:
    connections = Connections()
    before = connect(sockets)
    connections.begin()
    store = connect(sockets)
    connections.met(store[0].getpeername()[1])
    connect(sockets)
    connections.complete(2)
    after = connect(sockets)
    for _, other in (before, store, after):
        other.close()
    assert not connections.are_left


def test_what_a_thread_has_opened_while_all_met_is_not_cut(sockets: ExitStack) -> None:
    connections = Connections()
    connections.begin()
    to_store, _ = connect(sockets)
    anywhere, other = connect(sockets)
    connections.met(to_store.getpeername()[1])
    connections.complete(0)
    connections.cut()
    anywhere.sendall(b"as before")
    other.settimeout(PATIENCE_SECONDS)
    assert other.recv(100) == b"as before"
    assert to_store.recv(1) == b""


def test_where_another_thread_has_connected_meanwhile_an_end_says_nothing(
    sockets: ExitStack,
) -> None:
    connections = Connections()
    connections.begin()
    _, peer = connect(sockets)
    _, stranger = connect(sockets)
    connections.complete(3)  # but four ends are there, for the peers' are in this process too
    for other in (stranger, peer):
        other.close()
        assert not connections.are_left


def connected(sockets: ExitStack) -> tuple[Connections, socket.socket, socket.socket]:
    """A group's connections, which are one, this process's end of it, and that of the peer."""
    listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
    connections = Connections()
    connections.begin()
    own = sockets.enter_context(socket.create_connection(listening.getsockname()))
    connections.complete(2)
    peer = sockets.enter_context(listening.accept()[0])
    peer.settimeout(PATIENCE_SECONDS)
    return connections, own, peer


def test_who_cuts_reads_an_end_and_does_not_keep_the_peer_from_writing(sockets: ExitStack) -> None:
    connections, own, peer = connected(sockets)
    connections.cut()
    assert own.recv(1) == b""
    own.close()  # as gloo does then
    for _ in range(3):  # a reset would show from the second on
        peer.sendall(b"a message that begins after the cut")


def test_a_peer_that_nobody_has_told_reads_an_end_a_little_later(
    sockets: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotrun_trainer.elastic.connections._HOLD_SECONDS", 0.01)
    before = len(_sockets())
    connections, own, peer = connected(sockets)
    connections.cut()
    connections.cut()
    own.close()
    assert peer.recv(1) == b""
    sockets.close()
    assert before == len(_sockets())


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
    connections.complete(2)
    peer.close()
    with pytest.raises(PeerLostError, match="have ended"):
        Work(Forgotten(), connections).wait()


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
