"""The process behind `devcluster up`: it owns one cluster and its nodes, and runs commands.

Commands come as JSON lines over a unix socket in the cluster's directory. The connection that
requests the end stays open until this process is gone, so that the client knows when it is.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster, remove_leftovers

STATE = "state.json"
LOG = "supervisor.log"
_SOCKET = "control.sock"

Command = Mapping[str, Any]
Perform = Callable[[Command], Awaitable[Any]]


class NotRunningError(Exception):
    """No supervisor answers for this directory."""


@dataclass(frozen=True)
class State:
    """The facts that `down` needs for the clean-up after everything was killed."""

    marker: str
    pid: int
    kubernetes: str


def require_own(directory: Path) -> None:
    """Raise ValueError for a directory with other content: `down` removes all of it."""
    if (directory / STATE).exists() or not directory.exists():
        return
    if not directory.is_dir() or {entry.name for entry in directory.iterdir()} - {LOG}:
        raise ValueError(
            f"{directory} is not empty and belongs to no cluster, and `down` would remove all of "
            "it: name a directory that does not exist yet"
        )


def read_state(directory: Path) -> State | None:
    """Return the state that a supervisor left in the directory, running or not."""
    try:
        return State(**json.loads((directory / STATE).read_text()))
    except FileNotFoundError:
        return None


async def supervise(cluster: Cluster, perform: Perform, ready: Callable[[], None]) -> None:
    """Serve commands until a command or a signal stops it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            command = json.loads(await reader.readline())
            if command["verb"] == "down":
                stopping.set()
                return  # left open: it closes with this process
            writer.write(json.dumps(await _answer(perform, command)).encode() + b"\n")
            await writer.drain()
            writer.close()

    with _short_path(cluster.directory) as short:
        server = await asyncio.start_unix_server(serve, f"{short}/{_SOCKET}")
    (cluster.directory / _SOCKET).chmod(0o600)
    ready()
    await stopping.wait()
    server.close()


async def _answer(perform: Perform, command: Command) -> dict[str, Any]:
    try:
        return {"result": await perform(command)}
    except Exception as error:  # the client gets the error, and the cluster continues
        return {"error": f"{error}" or type(error).__name__}


def write_state(directory: Path, cluster: Cluster) -> None:
    """Write the facts that `down` needs, before there is anything to clean up."""
    directory.mkdir(parents=True, exist_ok=True)
    state = State(cluster.marker, os.getpid(), cluster.pin.kubernetes)
    (directory / STATE).write_text(json.dumps(asdict(state)))


def ask(  # the answer is JSON
    directory: Path, command: Command, timeout_seconds: float = 120
) -> Any:  # noqa: ANN401
    """Send a command to a running supervisor; raises NotRunningError, or ValueError."""
    with _connected(directory) as connection:
        connection.settimeout(timeout_seconds)
        connection.sendall(json.dumps(dict(command)).encode() + b"\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    if not answer:
        return None
    content = json.loads(answer)
    if "error" in content:
        raise ValueError(content["error"])
    return content["result"]


def end(directory: Path, timeout_seconds: float = 30) -> bool:
    """End the cluster of a directory, even one that runs only in part; False if there is none."""
    state = read_state(directory)
    if state is None:
        return False
    try:
        ask(directory, {"verb": "down"}, timeout_seconds)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGKILL)  # it holds the socket, so the pid is still its own
    except NotRunningError:
        pass
    remove_leftovers(directory, state.marker)
    return True


@contextlib.contextmanager
def _connected(directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with _short_path(directory) as short:
                connection.connect(f"{short}/{_SOCKET}")
        except OSError as error:
            raise NotRunningError(f"no cluster runs in {directory}: start it with `up`") from error
        yield connection


@contextlib.contextmanager
def _short_path(directory: Path) -> Iterator[str]:
    """A path of the directory that is short enough for the 107 bytes of a socket's address."""
    try:
        descriptor = os.open(directory, os.O_PATH)
    except FileNotFoundError as error:
        raise NotRunningError(f"there is no {directory}: start a cluster with `up`") from error
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
