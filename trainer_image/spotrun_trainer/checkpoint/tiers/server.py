"""The agent's side: it serves a worker's folder to the other workers of the job, and takes copies.

The agent outlives the training processes, so a worker's parts can be read while all processes start
again.
"""

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotrun_trainer.checkpoint.format.manifest import data_file, manifest_file, sha256_of
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import SMALL_BYTES
from spotrun_trainer.checkpoint.tiers.channel import Channel, ChannelError
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.settings import ADDRESS, read_settings
from spotrun_trainer.process.ipc_files import WorldFile

log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
PAUSE_SECONDS = 0.1
MOST_CONNECTIONS = 64
MOST_SECRETS = 4
"""Secrets of this many worlds count: a worker may learn of the next world before the others."""
_PIECE_BYTES = 1 << 20
_MOST_RANK = 999_999


class Server:
    """Serves one folder, in its own threads, until the process ends or it is closed."""

    def __init__(
        self, folder: Folder, address: str, world_secrets: Callable[[], Sequence[str]]
    ) -> None:
        self._folder = folder
        self._secrets = world_secrets
        self._slots = threading.Semaphore(MOST_CONNECTIONS)
        self._closed = threading.Event()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listening = socket.create_server((address, 0), family=family, backlog=1024)
        host = f"[{address}]" if ":" in address else address
        self.address = f"{host}:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, name="spotrun-local-tier", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with suppress(OSError):  # it wakes the thread
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._slots.acquire()
            try:
                self._accept()
            except (OSError, RuntimeError) as error:
                self._slots.release()
                if self._closed.is_set():
                    return
                # The peer has gone already, or there are no free descriptors or threads at the
                # moment.
                log.warning("the local tier could not accept a connection: %s", error)
                self._closed.wait(PAUSE_SECONDS)

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        try:
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except RuntimeError:
            connection.close()
            raise

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                channel = Channel(connection, self._secrets(), IDLE_SECONDS, is_server=True)
                while True:
                    self._answer(channel, channel.receive())
        except (OSError, ValueError) as error:  # a peer that has gone, or a stranger
            log.debug("a connection to the local tier has ended: %s", error)
        finally:
            self._slots.release()

    def _answer(self, channel: Channel, request: dict[str, Any]) -> None:
        what = request.get("what")
        name, rank = Name.parse(str(request.get("name"))), _whole(request, "rank", _MOST_RANK)
        if what == "put":
            self._put(channel, request, name, rank)
        elif what == "manifest":
            self._send_manifest(channel, name, rank)
        elif what == "data":
            self._send_data(channel, request, name, rank)
        else:
            raise ValueError(f"unknown request {str(what)[:40]!r}")

    def _send_manifest(self, channel: Channel, name: Name, rank: int) -> None:
        try:
            content = self._folder.read(name, manifest_file(rank))
        except OSError as error:
            channel.send(_refusal(error))
            return
        channel.send({"bytes": len(content)})
        channel.write(content)

    def _send_data(self, channel: Channel, request: dict[str, Any], name: Name, rank: int) -> None:
        try:
            file = os.fdopen(self._folder.open(name, data_file(rank)), "rb")
        except OSError as error:
            channel.send(_refusal(error))
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            start = min(_whole(request, "start", size), size)
            count = min(_whole(request, "count", 1 << 60), size - start)
            channel.send({"bytes": size})
            if count:
                channel.send_file(file.fileno(), start, count)

    def _put(self, channel: Channel, request: dict[str, Any], name: Name, rank: int) -> None:
        copy = _Copy(
            name,
            rank,
            data_bytes=_whole(request, "data", 1 << 60),
            manifest_bytes=_whole(request, "manifest", SMALL_BYTES),
            sha256=str(request.get("sha256")),
        )
        try:
            self._take(channel, copy)
        except OSError as error:
            self._folder.remove_file(name, data_file(rank))
            channel.send(_refusal(error))
            raise
        channel.send({"kept": True})

    def _take(self, channel: Channel, copy: "_Copy") -> None:
        """Write a copy as it arrives: the manifest last, as a part does not count without it."""
        folder, name, rank = self._folder, copy.name, copy.rank
        folder.remove_file(name, manifest_file(rank))
        folder.make(name)
        descriptor = folder.create_data(name, data_file(rank), copy.data_bytes)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            channel.send({"ready": True})
            buffer = memoryview(bytearray(_PIECE_BYTES))
            for start in range(0, copy.data_bytes, _PIECE_BYTES):
                piece = buffer[: copy.data_bytes - start]
                channel.read_into(piece)
                file.write(piece)
        manifest = channel.read(copy.manifest_bytes)
        if sha256_of(manifest) != copy.sha256:
            raise ChannelError("the manifest of a copy is not the one that was announced")
        folder.write(name, manifest_file(rank), manifest, rank)


@dataclass(frozen=True)
class _Copy:
    """A part that another worker sends."""

    name: Name
    rank: int
    data_bytes: int
    manifest_bytes: int
    sha256: str  # of the manifest


class WorldSecrets:
    """The secrets of the newest worlds, which the operator has told this worker's agent."""

    def __init__(self, directory: Path) -> None:
        self._file = WorldFile(directory)
        self._known = deque[str](maxlen=MOST_SECRETS)
        self._lock = threading.Lock()

    def __call__(self) -> Sequence[str]:
        """Return the secrets, newest first."""
        with self._lock:
            answer = self._file.read()
            world = answer.world if answer is not None else None
            if world is not None and world.secret and world.secret not in self._known:
                self._known.appendleft(world.secret)
            return tuple(self._known)


def serve_tier(
    environment: MutableMapping[str, str], address: str, directory: Path
) -> Server | None:
    """Serve this worker's folder to the job's workers, and tell the training processes the address.

    If that is impossible the local tier holds no copies, and the log says so.
    """
    environment.pop(ADDRESS, None)
    settings = read_settings(environment)
    if settings is None:
        return None
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        server = Server(Folder(settings), address, WorldSecrets(directory))
    except OSError as error:
        log.warning(
            "the local tier of checkpoints is off: its folder %s cannot be served at %s: %s; "
            "checkpoints are saved in their durable place only",
            settings.folder,
            address,
            error,
        )
        return None
    environment[ADDRESS] = server.address
    return server


def _refusal(error: OSError) -> dict[str, Any]:
    return {"error": str(error.strerror or error)[:1024], "errno": error.errno or 0}


def _whole(request: dict[str, Any], key: str, most: int) -> int:
    value = request.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} is a number up to {most}, not {str(value)[:40]}")
    return value
