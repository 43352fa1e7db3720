"""What an agent's server of a local tier bears: strangers, and a want of room or descriptors."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.tiers import server
from spotrun_trainer.checkpoint.tiers.client import RemoteFile, opened_of
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.server import Server
from spotrun_trainer.checkpoint.tiers.settings import Endpoint, Settings
from spotrun_trainer.process.addresses import split_address

NAME, FILE, SECRET = Name(5, 1), "rank-0.safetensors", "of this world"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A worker's folder, with 1,000 bytes of room."""
    return Folder(Settings(tmp_path, "auto", 1000, is_memory=False, endpoint=Endpoint("a", "")))


@pytest.fixture
def address(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that waits for a third of a second."""
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.3)
    serving = Server(folder, "127.0.0.1", lambda: (SECRET,))
    yield serving.address
    serving.close()


def put(folder: Folder, size: int) -> None:
    folder.make(NAME)
    folder.write_data(NAME, FILE, [memoryview(bytes(size))], lambda _piece: None)


def test_a_stranger_who_says_a_byte_now_and_then_is_sent_away(address: str) -> None:
    message = bytes(16) + (8192).to_bytes(4, "big") + bytes(180)  # with a number before it
    with socket.create_connection(split_address(address)) as stranger:
        stranger.settimeout(0.05)
        for number in range(len(message)):
            try:
                stranger.send(message[number : number + 1])
                if not stranger.recv(16):
                    return
            except TimeoutError:
                pass
            except ConnectionError:
                return
    pytest.fail("the stranger may stay for ever")


def test_a_want_of_descriptors_does_not_end_the_server(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, 10)
    accept, wants = socket.socket.accept, iter(range(server.MOST_CONNECTIONS + 1))

    def accept_later(listening: socket.socket) -> tuple[socket.socket, object]:
        if next(wants, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)

    monkeypatch.setattr(server, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(socket.socket, "accept", accept_later)
    serving = Server(folder, "127.0.0.1", lambda: (SECRET,))
    with opened_of(serving.address, SECRET, NAME, 0) as file:
        assert file.size == 10
    serving.close()


def test_processes_that_write_at_a_time_do_not_take_the_same_room(folder: Folder) -> None:
    folder.make(NAME)

    def another(_piece: memoryview) -> None:
        folder.write_data(NAME, "rank-1.safetensors", [memoryview(bytes(600))], lambda _piece: None)

    with pytest.raises(OSError, match="does not fit") as raised:
        folder.write_data(NAME, FILE, [memoryview(bytes(600))], another)
    assert raised.value.errno == errno.ENOSPC
    assert folder.files(NAME) == []


def test_a_file_that_became_shorter_is_an_error(folder: Folder, address: str) -> None:
    put(folder, 100)
    with opened_of(address, SECRET, NAME, 0) as file:
        assert isinstance(file, RemoteFile)
        put(folder, 10)
        with pytest.raises(ValueError, match="ended early"):
            file.read_into(0, memoryview(bytearray(100)))
