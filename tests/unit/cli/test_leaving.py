"""Verbs that wait, when Ctrl-C is pressed or the API server dies: real processes each time."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.processes.plugin import PROGRAMS

PATIENCE_SECONDS = 60.0
WORLD = {"number": 1, "active": True, "members": "0"}
JOB = {
    "apiVersion": "spotrun.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "gpt", "namespace": "ml", "uid": "u", "resourceVersion": "1"},
    "spec": {"workers": {"template": {"spec": {"containers": [{"name": "trainer"}]}}}},
    "status": {"phase": "Running", "world": WORLD},
}
POD = {
    "metadata": {
        "name": "gpt-x-0",
        "namespace": "ml",
        "uid": "p",
        "resourceVersion": "1",
        "labels": {"spotrun.dev/worker-id": "0", "spotrun.dev/job": "gpt"},
    },
    "spec": {"containers": [{"name": "trainer"}]},
}
AWAY = "the cluster does not answer"


class Server:
    """An API server that answers until something waits for news, and then is silent."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.is_mute = False
        self._end = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start(self) -> str:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def die(self) -> None:
        """Close every connection and the port."""
        self._end.set()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        is_stream = "watch" in request.query or request.path.endswith("/log")
        if self.is_mute or is_stream:
            return await self._silence(request)
        if request.path.endswith("/pods"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [POD]})
        if request.path.endswith("/trainingjobs/gpt"):
            return web.json_response(JOB)
        if request.method == "POST":
            body: dict[str, Any] = await request.json()
            meta = {**body["metadata"], "uid": "u", "resourceVersion": "1"}
            return web.json_response({**body, "metadata": meta})
        if request.method == "PATCH":
            return web.json_response({"metadata": {"resourceVersion": "1"}})
        return web.json_response({"kind": "Status", "code": 404, "message": "none"}, status=404)

    async def _silence(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if not self.is_mute:
            await answer.prepare(request)
        self.waits.set()
        await self._end.wait()
        if request.transport is not None:
            request.transport.abort()
        return answer


@dataclass(frozen=True)
class Case:
    """A verb, and how it ends."""

    words: tuple[str, ...]
    left: tuple[int, str]  # by Ctrl-C: the exit code, and what is said
    dead: tuple[int, str]  # when the API server dies
    is_mute: bool = False  # the server answers nothing
    goes_on: bool = False  # while the server is away, until Ctrl-C


STOPPED = (130, "interrupted before its end")
CASES = {
    "run": Case(
        ("run", "train.py", "--name", "gpt", "--image", "x", "--yes"),
        (0, "Detached: gpt continues."),
        (0, "Detached: gpt continues."),
        goes_on=True,
    ),
    "watch": Case(("watch", "gpt"), (0, "gpt continues"), (0, "gpt continues"), goes_on=True),
    "logs": Case(("logs", "gpt", "-f"), STOPPED, STOPPED, goes_on=True),
    "profile": Case(("profile", "gpt", "--timeout", "1"), STOPPED, (3, AWAY)),
    "tune": Case(("tune", "gpt"), STOPPED, (3, AWAY), is_mute=True),
    "report": Case(("report", "gpt"), STOPPED, (3, AWAY), is_mute=True),
}


@asynccontextmanager
async def begun(case: Case, folder: Path) -> AsyncIterator[tuple[Process, Server]]:
    """Type the verb, and wait until it waits; afterwards nothing of it may be left."""
    server = Server()
    server.is_mute = case.is_mute
    (folder / "train.py").write_text("print('hello')\n")
    config = {
        "clusters": [{"name": "c", "cluster": {"server": await server.start()}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        PROGRAMS / "kubectl-tjob",
        *case.words,
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "config")},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.waits.wait()
            yield process, server
            with pytest.raises(ProcessLookupError):  # it has left no process behind
                os.killpg(process.pid, 0)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await server.die()


def check(code: int | None, said: str, expected: tuple[int, str]) -> None:
    assert expected[1] in said
    assert code == expected[0], said
    for word in ("Traceback", "never retrieved", "never awaited", "was destroyed", "Unclosed"):
        assert word not in said


@pytest.mark.parametrize("verb", CASES)
async def test_ctrl_c_ends_a_verb_with_a_sentence(verb: str, tmp_path: Path) -> None:
    async with begun(CASES[verb], tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        check(process.returncode, (out + err).decode(), CASES[verb].left)


@pytest.mark.parametrize("verb", CASES)
async def test_an_api_server_that_dies_is_told_and_waited_for_by_those_who_follow(
    verb: str, tmp_path: Path
) -> None:
    case = CASES[verb]
    async with begun(case, tmp_path) as (process, server):
        await server.die()
        said = ""
        if case.goes_on:
            assert process.stderr is not None
            while AWAY not in said:
                line = await process.stderr.readline()
                assert line, said
                said += line.decode()
            process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        check(process.returncode, said + (out + err).decode(), case.dead)
