"""One replica of the operator as a process of a bench; started by `bench/operator_bench.py`.

It is the operator itself: caches, queue, decisions, writes, the TLS server. With `--plays` the
agents of all workers are played in here: what they would report is handed to the operator's memory
of agents without a connection, a token and JSON (which `bench/long_poll.py` measures). It says when
its caches are full and when its first decision is carried out, and answers questions.
"""

import argparse
import asyncio
import cProfile
import itertools
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop
from typing_extensions import override

from bench.soaking.census import Census, census
from bench.soaking.heap import heap
from devcluster.addresses import free_port
from spotrun.http.tls import OwnSecret
from spotrun.kube.resource import Key, Object, Resource
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Params, Transport
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.kube.watch.reflector import Handler
from spotrun.observe.kube_objects import FED, TRAINING_JOBS
from spotrun.runtime import kopf_host
from spotrun.runtime.agent_server import Settings as ServerSettings
from spotrun.runtime.controller import Controller, Settings
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.wire import Progress, Report

STEPS = 1_000_000


def say(event: str, **more: object) -> None:
    print(json.dumps({"event": event, "at": time.monotonic(), **more}), flush=True)


class Measured(Controller):
    """Says when it has decided; `plays`: also plays the agents."""

    def __init__(self, *arguments: Any, plays: bool, traffic: Counter[str]) -> None:  # noqa: ANN401 - passed on
        super().__init__(*arguments)
        self._traffic = traffic
        self._plays = plays
        self._ports = (20_000 + number % 40_000 for number in itertools.count())
        self._decided: set[Key] = set()
        self.num_decisions = 0

    async def says_when_full(self) -> None:
        await self._caches.synced()
        say("synced", jobs=self._caches.num_jobs)

    @override
    async def until_broken(self) -> None:
        """The bench ends it by closing its input."""
        await asyncio.gather(self.says_when_full(), answer(self))

    def stats(self) -> dict[str, object]:
        writes = dict(self._reconciler._executor.writes)  # noqa: SLF001
        return {
            "writes": writes,
            "decisions": self.num_decisions,
            "leads": self.leads,
            "traffic": dict(self._traffic),
        }

    @override
    async def _work(self, key: Key) -> float | None:
        if self._plays:
            self._report_ready(key)
        decides = self.leads and self._horizon.caught_up(key)
        wake_after_seconds = await super()._work(key)
        if decides:
            self._count(key)
        return wake_after_seconds

    def census(self) -> Census:
        """Count what this process holds, but for what is kept up to a limit, and the bench's own.

        The operator remembers the names of the last jobs that are gone, and what they cost.
        """
        self._decided.clear()
        self._board._gone.clear()  # noqa: SLF001 - the last ones, so that agents are told
        self._deleted_jobs._kept.clear()  # noqa: SLF001 - for five minutes, for Prometheus
        queues = (self._queue, self._orphan_queue, self._pool_queue, self._search_queue)
        return census() | {"queued": sum(queue.waiting() for queue in queues)}

    def _count(self, key: Key) -> None:
        self.num_decisions += 1
        if self.num_decisions == 1:
            say("decided")
        if key not in self._decided:
            self._decided.add(key)
            if len(self._decided) == self._caches.num_jobs:
                say("all_decided", jobs=len(self._decided))

    @override
    def _stored(self, job: JobSnapshot, status: JobState, version: str) -> None:
        super()._stored(job, status, version)
        if self._plays and status.world.is_active:
            self._enter(job, status.world.number, status.world.members)

    def _report_ready(self, key: Key) -> None:
        """Report as ready each worker whose pod runs and that has not spoken yet."""
        agents, alive = self._caches.agents, self._caches.jobs.uid_of(key)
        for pod in self._caches.jobs.pods_of(key):
            uid, worker_id = pod.metadata.owner_uid, int(pod.metadata.name.rpartition("-")[2])
            runs = pod.status.phase == "Running" and pod.status.pod_ip is not None
            # Of a job that is gone nothing is taken: the operator's server sends its agents away.
            if uid is not None and uid == alive and runs and agents.facts(uid, worker_id) is None:
                agents.take_report(uid, worker_id, self._report())

    def progress(self) -> None:
        """Every agent that has arrived in a world is some steps further."""
        agents = self._caches.agents
        for key in self._caches.all_keys():
            for pod in self._caches.jobs.pods_of(key):
                uid, worker_id = pod.metadata.owner_uid, int(pod.metadata.name.rpartition("-")[2])
                known = agents.facts(uid, worker_id) if uid is not None else None
                if uid is not None and known is not None and known.report.progress is not None:
                    made = known.report.progress
                    further = replace(made, step=made.step + 10, samples=made.samples + 80)
                    agents.take_report(uid, worker_id, replace(known.report, progress=further))

    def _enter(self, job: JobSnapshot, world_number: int, members: tuple[int, ...]) -> None:
        """Report each member as training in the world, as soon as that is published."""
        agents = self._caches.agents
        for worker_id in members:
            known = agents.facts(job.uid, worker_id)
            if known is not None and known.report.arrived < world_number:
                agents.take_report(job.uid, worker_id, self._report(world_number))
                self._queue.add(Key(job.namespace, job.name), urgent=True)

    def _report(self, world_number: int = 0) -> Report:
        step = 100 * world_number
        progress = Progress(world_number, step, STEPS, samples=8 * step) if world_number else None
        return Report(
            ready=True,
            arrived=world_number,
            store_port=next(self._ports),
            progress=progress,
            in_process=True,
        )


class Counted(Transport):
    """Counts the requests to the API server, by method, and what watches bring."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self.traffic: Counter[str] = Counter()

    @override
    async def request(self, method: str, path: str, **more: Any) -> bytes:
        self.traffic[method] += 1
        return await super().request(method, path, **more)

    @override
    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        self.traffic["WATCH"] += 1
        stream = super().stream(path, params=params, silence_seconds=silence_seconds)
        async with aclosing(stream):
            async for lines in stream:
                self.traffic["watched_events"] += len(lines)
                self.traffic["watched_bytes"] += sum(map(len, lines))
                yield lines


class Direct(Feed):
    """Tells the operator itself, as if kopf were not between them."""

    receiver: Measured

    def __init__(self) -> None:
        super().__init__(FED)

    @override
    def handler(self, resource: Resource) -> Handler[Any]:
        def changed(old: Object | None, new: Object | None) -> None:
            meta = (new or old).metadata  # type: ignore[union-attr]  # a change has one of them
            if resource == TRAINING_JOBS:
                self.receiver.job_changed(Key(meta.namespace, meta.name))
            else:
                self.receiver.pool_changed(meta.name)

        return changed


async def run(arguments: argparse.Namespace) -> None:
    host = arguments.host
    port = free_port(host)
    settings = Settings(
        namespace="default",
        advertise=f"{host}:{port}",
        address=f"{host}:{port}",
        agents=ServerSettings(host=host, port=port, step_down_seconds=0.1),
        plain_host=host,
        plain_port=0,
        kueue=arguments.kueue,
    )

    @asynccontextmanager
    async def opened(feed: Feed) -> AsyncIterator[Measured]:
        credentials = Credentials(from_kubeconfig(arguments.kubeconfig))
        async with Counted(credentials) as transport:
            client = Client(transport, field_manager="spotrun")
            source = OwnSecret(client, namespace="default")
            controller = Measured(
                *(settings, client, source, feed),
                plays=arguments.plays,
                traffic=transport.traffic,
            )
            async with controller as operator:
                yield operator

    if arguments.without_kopf:
        feed = Direct()
        async with opened(feed) as feed.receiver:
            await feed.receiver.until_broken()
    else:
        await kopf_host.host(opened)


async def answer(operator: Measured) -> None:
    """Answer what comes in; return when that has ended."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    profile = cProfile.Profile()
    while line := await lines.readline():
        order = json.loads(line)
        match order["do"]:
            case "profile":
                profile.enable()
            case "progress":
                operator.progress()
            case "census":
                counts, own = operator.census(), heap()
                say("census", counts=counts, heap=own and vars(own))
                continue
            case "dump":
                profile.disable()
                profile.dump_stats(order["file"])
        say(order["do"], **operator.stats())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("host")
    parser.add_argument("--without-kopf", action="store_true", help="wake jobs without it")
    parser.add_argument("--kueue", action="store_true")
    parser.add_argument("--plays", action="store_true", help="play the agents, too")
    say("loaded")
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
