"""An agent played in Python: what runs in the pods of scripted nodes to test the operator.

It keeps the worker's side of the contract (polls, reports, last words) and trains nothing: a `Play`
says what happens to it.
"""

import asyncio
import itertools
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import aiohttp

from devcluster.client import Client, Manifest, at
from devcluster.kubelet.runtime import Exit
from devcluster.scripted import Context
from spotrun.api import names
from spotrun.kube.rest.connector import Connector
from spotrun.wire import (
    Answer,
    Checkpoint,
    Ending,
    LastWords,
    Metric,
    Progress,
    Report,
    Utilization,
    read_answer,
    write_last_words,
    write_report,
)

_SPARE_PORTS = itertools.count(20_000)
_RETRY_SECONDS = 0.1
_REPORT_SECONDS = 2.0
"""A report may have reached an operator that died of it: it is made again though nothing is new."""
_STEPS_SECONDS = 0.2
_STEPS_AT_ONCE = 40


class Times(NamedTuple):
    """The times of a step, in seconds."""

    compute: float
    data: float = 0.0
    communicate: float = 0.0


@dataclass
class Play:
    """The behaviour of the agents of a test; change it while they run."""

    steps: int = 1_000_000
    in_process: bool = True
    is_mute: bool = False  # a script that does not train through `Run`, and tells nothing
    # What steps take in a world of so many processes: they are made and told only if this is given.
    step_times: Callable[[int], Times] | None = None
    reported_steps: int = 200  # of each world, and some more: the operator waits for fewer
    sync_bytes: int | None = None  # of gradients, which such steps add up
    save_seconds: float | None = None  # of the world, that saving took them
    save_failure: str | None = None  # why saves fail
    metrics: dict[str, float] = field(default_factory=dict)  # as measured at every step
    may_save: bool = True
    may_finish_stages: int = 0  # of the job's stages, from the first on
    saves_often: bool = False  # at each request; else once in a world
    saves_at_end: bool = False  # as Run does
    may_finish: asyncio.Event = field(default_factory=asyncio.Event)
    crash: dict[int, int] = field(
        default_factory=dict
    )  # worker id -> exit code, as soon as it trains
    may_start: dict[int, asyncio.Event] = field(default_factory=dict)  # by worker id; others may
    servers: dict[int, str] = field(
        default_factory=dict
    )  # by worker id: another way to the operator
    agents: dict[int, "ScriptedAgent"] = field(default_factory=dict)  # by worker id, the latest

    def container(self, kube: Client) -> Any:
        """The coroutine function to be the container."""

        async def play(context: Context) -> Exit:
            agent = ScriptedAgent(context, kube, self)
            self.agents[agent.worker_id] = agent
            return await agent.run()

        return play


def worker_id_of(pod: Manifest) -> int:
    """Return the worker's id by its pod's name: labels are others in earlier releases."""
    return int(pod["metadata"]["name"].rpartition("-")[2])


class ScriptedAgent:
    """One worker."""

    def __init__(self, context: Context, kube: Client, play: Play) -> None:
        self.context = context
        self.worker_id = worker_id_of(context.pod)
        self.answer: Answer | None = None
        in_process = play.in_process and not play.is_mute
        self.report = Report(ready=True, store_port=next(_SPARE_PORTS), in_process=in_process)
        self.worlds: list[int] = []  # the worlds it trained in
        self._saved = 0  # the request that was answered last
        self._kube = kube
        self._play = play
        self._changed = asyncio.Event()
        self._lost_touch = False  # and so the next operator has to be told everything
        self._leader: str | None = None  # where a standby sent us; None: where we were told first
        self._newest: int | None = None  # the newest world of any answer

    def suspect(self, *ranks: int) -> None:
        """Miss the heartbeats of these ranks of the world, and report it."""
        self.report = replace(self.report, suspects=ranks)
        self._lost_touch = True
        self._changed.set()

    async def run(self) -> Exit:
        """Live until there is nothing left to do."""
        if self.worker_id in self._play.may_start:
            await self._play.may_start[self.worker_id].wait()
        env = self.context.env
        tls = ssl.create_default_context(cadata=env[names.ENV_CA])
        url = f"/v1/jobs/{env[names.ENV_NAMESPACE]}/{env[names.ENV_JOB]}"
        url += f"/workers/{env[names.ENV_WORKER]}"
        headers = {"Authorization": f"Bearer {await self._token()}"}
        connector = Connector(tls)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            polls = asyncio.create_task(self._poll(session, url))
            life = asyncio.create_task(self._live(session, url))
            told_to_end = asyncio.create_task(self.context.terminated.wait())
            try:
                # It ends when told to, also while a report hangs on a dead link.
                await asyncio.wait({life, told_to_end}, return_when=asyncio.FIRST_COMPLETED)
                return life.result() if life.done() else _end(Ending.DEPARTED, 0)
            finally:
                for task in (polls, life, told_to_end):
                    task.cancel()
                await asyncio.gather(polls, life, told_to_end, return_exceptions=True)

    async def _live(self, session: aiohttp.ClientSession, url: str) -> Exit:
        await self._send(session, url)
        while True:
            is_due = not await self._something()
            answer = self.answer
            if answer is None:
                continue
            if answer.phase in {"Succeeded", "Failed"}:
                return _end(Ending.COMPLETED if answer.phase == "Succeeded" else Ending.DEPARTED, 0)
            again, self._lost_touch = self._lost_touch or is_due, False
            has_changed = self._enter(answer) or self._save(answer) or self._finish()
            if self._step(answer) or has_changed or again:
                await self._send(session, url)
            if self.report.arrived and self.worker_id in self._play.crash:
                return _end(Ending.FAILED, self._play.crash.pop(self.worker_id))

    def _take(self, answer: Answer) -> None:
        """Note an answer, and open another store once this one was or may have been given away."""
        self.answer, world = answer, answer.world
        number = world.number if world is not None else answer.world_number or self._newest or 0
        is_given = (
            world is not None
            and world.store is not None
            and world.store.endswith(f":{self.report.store_port}")
        )
        if is_given or (self._newest is not None and number > self._newest + 1):
            self.report = replace(self.report, store_port=next(_SPARE_PORTS))
            self._lost_touch = True
        self._newest = max(number, self._newest or 0)

    def _enter(self, answer: Answer) -> bool:
        world = answer.world
        if world is None or not world.switch or not world.processes or world.store is None:
            return False
        if world.number <= self.report.arrived:
            return False
        self.worlds.append(world.number)
        step = 100 * world.number
        made = Progress(
            world.number,
            step,
            self._play.steps,
            samples=step * 8,
            metrics=self._measured(),
            save_failure=self._play.save_failure,
        )
        self.report = replace(
            self.report,
            arrived=world.number,
            completed=False,
            suspects=(),
            progress=None if self._play.is_mute else made,
        )
        return True

    def _measured(self) -> tuple[Metric, ...]:
        return tuple(Metric(name, value) for name, value in self._play.metrics.items())

    def _step(self, answer: Answer) -> bool:
        """Make many steps at once, until the operator has heard enough of them."""
        made, world = self.report.progress, answer.world
        if self._play.step_times is None or made is None or world is None:
            return False
        begun = 100 * self.report.arrived
        if made.step - begun > self._play.reported_steps:
            return False
        times, step = self._play.step_times(world.size), made.step + _STEPS_AT_ONCE
        shares = [part / sum(times) for part in times]
        self.report = replace(
            self.report,
            progress=replace(
                made,
                step=step,
                samples=step * 8,
                step_seconds=sum(times),
                compute=shares[0],
                data=shares[1],
                communicate=shares[2],
                sync_bytes=self._play.sync_bytes,
                metrics=self._measured(),
                checkpoint_seconds=self._play.save_seconds,
            ),
            utilization=Utilization(cpu=shares[0]),
        )
        return True

    def _save(self, answer: Answer) -> bool:
        done = self.report.committed
        if not self._play.may_save or not answer.orders.checkpoint:
            return False
        step, made = 100 * self.report.arrived, self.report.progress
        if self._play.saves_often and answer.orders.checkpoint > self._saved and made:
            step = made.step
        elif done and done.step >= step:
            return False
        self._saved = answer.orders.checkpoint
        self.report = replace(
            self.report,
            committed=Checkpoint(f"step-{step}.g{self.report.arrived}", step, self._saved),
        )
        return True

    def _finish(self) -> bool:
        if self.report.completed or not self.report.arrived or not self._is_done():
            return False
        if self._play.saves_at_end:
            step = 100 * self.report.arrived
            saved = Checkpoint(f"step-{step}.g{self.report.arrived}", step)
            self.report = replace(self.report, committed=saved)
        self.report = replace(self.report, completed=True)
        world = self.answer.world if self.answer is not None else None
        if world is not None and world.stage is not None:
            step = world.stage.until_step or 100 * self.report.arrived
            saved = Checkpoint(f"step-{step}.g{self.report.arrived}", step)
            self.report = replace(self.report, committed=saved)
        return True

    def _is_done(self) -> bool:
        if self._play.may_finish.is_set() or self.answer is None:
            return self._play.may_finish.is_set()
        world = self.answer.world
        if world is not None and world.number != self.report.arrived:
            return False
        stage = world.stage.index if world is not None and world.stage is not None else 0
        return self.answer.orders.stop > stage or stage < self._play.may_finish_stages

    async def _something(self) -> bool:
        """Wait for news or leave to finish; false if nothing came for a while."""
        seconds = _REPORT_SECONDS if self._play.step_times is None else _STEPS_SECONDS
        waits = [asyncio.create_task(self._changed.wait())]
        if not self.report.completed:
            waits.append(asyncio.create_task(self._play.may_finish.wait()))
        try:
            done, _ = await asyncio.wait(
                waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
        self._changed.clear()
        return bool(done)

    async def _poll(self, session: aiohttp.ClientSession, url: str) -> None:
        while True:
            seen = self.answer.version if self.answer is not None else ""
            try:
                async with session.get(
                    f"{self._server}{url}/world",
                    params={"seen": seen},
                    server_hostname=names.SERVER_NAME,
                ) as response:
                    if response.status == 200:
                        self._take(read_answer(await response.read()))
                        self._changed.set()
                        continue
                    await self._follow(response)
            except (aiohttp.ClientError, TimeoutError):
                self._leader = None
            self._lost_touch = True
            self._changed.set()
            await asyncio.sleep(_RETRY_SECONDS)  # the operator is away, as agents know it to be

    async def _send(self, session: aiohttp.ClientSession, url: str) -> None:
        while True:
            try:
                async with session.post(
                    f"{self._server}{url}/report",
                    data=write_report(self.report),
                    server_hostname=names.SERVER_NAME,
                ) as response:
                    if response.status == 200:
                        self._take(read_answer(await response.read()))
                        self._changed.set()
                        return
                    await self._follow(response)
            except (aiohttp.ClientError, TimeoutError):
                self._leader = None
            await asyncio.sleep(_RETRY_SECONDS)

    @property
    def _server(self) -> str:
        server = self._play.servers.get(self.worker_id, self.context.env[names.ENV_SERVER])
        return f"https://{self._leader or server}"

    async def _follow(self, response: aiohttp.ClientResponse) -> None:
        """Ask the leader next time, if a standby has named it."""
        self._leader = (await response.json())["leader"] if response.status == 421 else None

    async def _token(self) -> str:
        """Return the token that the kubelet would have projected into the pod."""
        meta = self.context.pod["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [names.TOKEN_AUDIENCE], "boundObjectRef": reference},
        }
        path = at("serviceaccounts", meta["namespace"], "default", "token")
        answer: Mapping[str, Any] = await self._kube.create(path, request)
        return str(answer["status"]["token"])


def _end(reason: Ending, code: int) -> Exit:
    return Exit(code, message=write_last_words(LastWords(reason, exit_code=code)))
