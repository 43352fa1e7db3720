"""Agents that can be frozen, lie, and say again what they have said."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from typing_extensions import override

from devcluster.client import Client
from devcluster.kubelet.runtime import Exit
from devcluster.scripted import Context
from spotrun.kube.tasks import running
from spotrun.wire import write_report
from tests.support.cluster.scripted_agent import Play, ScriptedAgent


class FaultyAgent(ScriptedAgent):
    """A played agent, until something happens to it."""

    def __init__(self, context: Context, kube: Client, play: Play) -> None:
        super().__init__(context, kube, play)
        self.lives = asyncio.Event()  # cleared: frozen
        self.lives.set()
        self.frozen = asyncio.Event()
        self.said: list[bytes] = []  # every report, the oldest first
        self.committed: set[str] = set()
        self._line: tuple[aiohttp.ClientSession, str] | None = None

    def freeze(self) -> None:
        """Neither ask nor report any more, as a process does that was stopped."""
        self.lives.clear()
        self.frozen.set()

    def thaw(self) -> None:
        self.frozen.clear()
        self.lives.set()

    def say_of_saves(self, failure: str | None) -> None:
        """Report why saves fail, or that they do not."""
        if self.report.progress is not None:
            made = replace(self.report.progress, save_failure=failure)
            self.report = replace(self.report, progress=made)
        self._lost_touch = True
        self._changed.set()

    async def say(self, body: bytes) -> None:
        """Send a report that is not what is true now; a refusal of it is as good."""
        if self._line is None or self._line[0].closed:
            return  # it has nobody to speak to, or it has ended
        session, url = self._line
        try:
            async with session.post(
                f"{self._server}{url}/report", data=body, server_hostname="spotrun"
            ) as response:
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return

    @override
    async def _live(self, session: aiohttp.ClientSession, url: str) -> Exit:
        self._line = session, url
        return await super()._live(session, url)

    @override
    async def _send(self, session: aiohttp.ClientSession, url: str) -> None:
        await self.lives.wait()
        self.said.append(write_report(self.report))
        if self.report.committed is not None:
            self.committed.add(self.report.committed.name)
        await super()._send(session, url)

    @override
    async def _poll(self, session: aiohttp.ClientSession, url: str) -> None:
        while True:
            async with running(super()._poll(session, url)):
                await self.frozen.wait()
            await self.lives.wait()


@dataclass
class FaultyPlay(Play):
    """A play of such agents; `everyone` are all there ever were."""

    everyone: list[FaultyAgent] = field(default_factory=list)

    @override
    def container(self, kube: Client) -> Any:
        async def play(context: Context) -> Exit:
            agent = FaultyAgent(context, kube, self)
            self.agents[agent.worker_id] = agent
            self.everyone.append(agent)
            return await agent.run()

        return play

    def living(self) -> list[FaultyAgent]:
        """Return the agents that have spoken, by the worker's number."""
        agents = [self.agents[n] for n in sorted(self.agents)]
        return [one for one in agents if isinstance(one, FaultyAgent) and one.said]
