"""The cost of getting changes of jobs through kopf: CPU time per change, in three ways.

`reflector`: our reflector reads the stream and wakes the job itself. `fed`: the same, but it passes
the change to kopf, which wakes the job; this is how the operator works. `own`: kopf reads the
stream, and its objects go into our cache. The stream is in memory, the same for all ways, and ends
once each job was woken; everything is in this process. Not measured: kopf's own stream under faults
(ADR 0001).

Run as `.venv/bin/python bench/kopf_front.py [--quick]`; figures are JSON lines.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import kopf
import msgspec
import uvloop
from typing_extensions import override

from bench.operator_bench import say
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.tasks import running
from spotrun.kube.watch.kopf_feed import SERVER, Feed
from spotrun.kube.watch.kopf_http import Answer
from spotrun.kube.watch.reflector import Reflector
from spotrun.kube.watch.watch_events import Broken
from spotrun.observe.kube_objects import FED, TRAINING_JOBS, JobObject
from spotrun.runtime import kopf_handlers
from tests.support.cluster.kopf_front import following, watching

TRIES = 5
SMALL, LARGE = 4_000, 400_000
"""Bytes of a job's status: with some workers, and with the maximum."""


class Woken:
    """Counts the jobs that were woken; the run ends once all were."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.all = asyncio.Event()

    def job_changed(self, _: Key) -> None:
        self.left -= 1
        if not self.left:
            self.all.set()

    def pool_changed(self, name: str) -> None:
        raise AssertionError(f"there is no pool {name}")

    def search_changed(self, key: Key) -> None:
        raise AssertionError(f"there is no search {key}")


class WholeStream(Feed):
    """Sends whole objects, as the API server does."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__(FED)
        self._lines = lines

    @override
    async def request(self, method: str, url: str, **options: object) -> Answer:
        if TRAINING_JOBS.plural in url and "watch=" in url:
            return Answer(200, stream=self._whole())
        return await super().request(method, url, **options)

    async def _whole(self) -> AsyncGenerator[bytes, None]:
        for line in self._lines:
            yield line
            await asyncio.sleep(0)  # as from a socket
        await asyncio.Event().wait()


def reflector(notify: Callable[[Any, Any], None]) -> Reflector[JobObject]:
    return Reflector(cast("Client", None), Selection(TRAINING_JOBS), JobObject, notify)


async def take(lines: list[bytes], into: Reflector[JobObject]) -> None:
    for line in lines:
        into._take(line)  # noqa: SLF001 - what it does with a line of its watch
        await asyncio.sleep(0)


async def by_reflector(lines: list[bytes], woken: Woken) -> None:
    await take(lines, reflector(lambda _, new: woken.job_changed(key_of(new))))


@asynccontextmanager
async def fed(woken: Woken) -> AsyncIterator[Reflector[JobObject]]:
    feed = Feed(FED)
    feed.resume()
    async with running(watching(feed, woken)):
        yield reflector(feed.handler(TRAINING_JOBS))


async def by_feed(lines: list[bytes], woken: Woken) -> None:
    async with fed(woken) as into:
        await take(lines, into)
        await woken.all.wait()


async def by_kopf(lines: list[bytes], woken: Woken) -> None:
    cache = reflector(lambda _, new: woken.job_changed(key_of(new)))
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401 - kopf's keyword arguments
        session = cast("Any", WholeStream(lines))
        return kopf.AiohttpSession(server=SERVER, aiohttp_session=session)

    @kopf.on.event(*kopf_handlers.names(TRAINING_JOBS), registry=registry)
    async def job(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's
        item = cache._codec.item(msgspec.Raw(msgspec.json.encode(event["object"])))  # noqa: SLF001
        assert not isinstance(item, Broken), item.why
        cache._tell(cache.store.put(item))  # noqa: SLF001

    async with running(following(registry)):
        await woken.all.wait()


def key_of(job: JobObject) -> Key:
    return Key(job.metadata.namespace, job.metadata.name)


def events(jobs: int, status_bytes: int) -> list[bytes]:
    """Return one change of each job, with a status of many small parts."""
    conditions = [{"type": f"c{n}", "status": "True", "message": "m" * 60} for n in range(10**4)]
    size = len(msgspec.json.encode(conditions[:100])) / 100
    status = {"conditions": conditions[: int(status_bytes / size)]}
    spec = {"workers": {"template": {"spec": {"containers": [{"name": "trainer"}] * 20}}}}
    content = {"apiVersion": "spotrun.dev/v1alpha1", "kind": "TrainingJob", "spec": spec}
    lines = []
    for n in range(jobs):
        meta = {"name": f"job-{n}", "namespace": "ns", "uid": f"u-{n}", "resourceVersion": f"{n}1"}
        one = {"type": "MODIFIED", "object": {**content, "metadata": meta, "status": status}}
        lines.append(msgspec.json.encode(one) + b"\n")
    return lines


WAYS: dict[str, Callable[[list[bytes], Woken], Awaitable[None]]] = {
    "reflector": by_reflector,
    "fed": by_feed,
    "own": by_kopf,
}


def measure(way: str, jobs: int, status_bytes: int) -> None:
    """Print the CPU time of one change, without the start-up of kopf."""
    # The difference removes costs that do not depend on the number; the best of several tries
    # removes the influence of other processes.
    few, many = (cpu_seconds(way, events(n, status_bytes)) for n in (jobs, 3 * jobs))
    cost = max(0.0, many - few) / (2 * jobs)
    say(f"front_{way}_us", 1e6 * cost, "us", status_kb=status_bytes // 1000)


def cpu_seconds(way: str, lines: list[bytes]) -> float:
    tries = []
    for _ in range(TRIES):
        before = time.process_time()
        uvloop.run(WAYS[way](lines, Woken(len(lines))))  # type: ignore[arg-type]  # are coroutines
        tries.append(time.process_time() - before)
    return min(tries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 jobs")
    quick = parser.parse_args().quick
    for status_bytes, jobs in ((SMALL, 1_000), (LARGE, 50)):
        for way in WAYS:
            measure(way, 20 if quick else jobs, status_bytes)


if __name__ == "__main__":
    main()
