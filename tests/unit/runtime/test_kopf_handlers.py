"""kopf watches the feed: what reflectors tell it comes to the handlers, each change once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec
import pytest

from spotrun.kube.resource import Key
from spotrun.kube.tasks import running
from spotrun.kube.watch.kopf_feed import MOST_IN_HAND, SERVER, Feed
from spotrun.observe.kube_objects import CAPACITY_POOLS, FED, TRAINING_JOBS, JobMeta, JobObject
from tests.support.cluster.kopf_front import watching

JOB = Key("ns", "job")


@dataclass
class Told:
    """Who is told, and can wait for it."""

    news: asyncio.Queue[Key | str] = field(default_factory=asyncio.Queue)

    def job_changed(self, key: Key) -> None:
        self.news.put_nowait(key)

    def pool_changed(self, name: str) -> None:
        self.news.put_nowait(name)

    def search_changed(self, key: Key) -> None:
        self.news.put_nowait(key)

    async def next(self) -> Key | str:
        async with asyncio.timeout(5):
            return await self.news.get()


def an_object(
    name: str = "job", version: int = 1, uid: str = "u", namespace: str = "ns"
) -> JobObject:
    meta = JobMeta(name=name, namespace=namespace, uid=uid, resource_version=str(version))
    return JobObject(meta)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def feed() -> Feed:
    feed = Feed(FED)
    feed.resume()
    return feed


@pytest.fixture
async def kopf_watches(feed: Feed, told: Told) -> AsyncIterator[None]:
    async with running(watching(feed, told)):
        yield


@pytest.mark.usefixtures("kopf_watches")
async def test_what_happens_to_a_job_comes_to_its_handler(feed: Feed, told: Told) -> None:
    tell = feed.handler(TRAINING_JOBS)
    for old, new in ((None, an_object()), (an_object(), an_object(version=2)), (an_object(), None)):
        tell(old, new)
        assert await told.next() == JOB
    assert feed.unhandled_seconds() == 0


@pytest.mark.usefixtures("kopf_watches")
async def test_what_happens_to_a_pool_comes_to_its_handler(feed: Feed, told: Told) -> None:
    feed.handler(CAPACITY_POOLS)(None, an_object("spot", namespace=""))
    assert await told.next() == "spot"
    assert feed.unhandled_seconds() == 0


@pytest.mark.usefixtures("kopf_watches")
async def test_thousands_of_jobs_are_each_told(feed: Feed, told: Told) -> None:
    tell = feed.handler(TRAINING_JOBS)
    names = {f"job-{n}" for n in range(2_000)}
    for name in names:
        tell(None, an_object(name, uid=name))
    assert {(await told.next())[1] for _ in names} == names
    assert feed.unhandled_seconds() == 0


async def test_what_happened_before_kopf_listened_is_told_once(feed: Feed, told: Told) -> None:
    tell = feed.handler(TRAINING_JOBS)
    for version in range(1, 1_000):
        tell(an_object(version=version), an_object(version=version + 1))
    async with running(watching(feed, told)):
        assert await told.next() == JOB
        tell(None, an_object("other", uid="v"))
        assert await told.next() == Key("ns", "other")


async def read(feed: Feed) -> list[tuple[str, str, str]]:
    """Open a stream, read what it says at once, and close it."""
    async with await feed.request("get", f"{SERVER}{TRAINING_JOBS.path()}?watch=true") as answer:
        async with asyncio.timeout(5):
            lines = await anext(answer.content.iter_chunked(1))
    told = [msgspec.json.decode(line) for line in lines.splitlines()]
    metas = [(one["type"], one["object"]["metadata"]) for one in told]
    return [(event, meta["name"], meta["uid"]) for event, meta in metas]


async def test_a_job_of_a_former_ones_name_is_told_beside_its_end(feed: Feed) -> None:
    feed.handler(TRAINING_JOBS)(an_object(), an_object(version=2, uid="other"))
    assert await read(feed) == [("DELETED", "job", "u"), ("ADDED", "job", "other")]


async def test_nothing_is_lost_or_told_twice_between_two_streams(feed: Feed) -> None:
    for name in ("one", "two"):
        feed.handler(TRAINING_JOBS)(None, an_object(name, uid=name))
        assert await read(feed) == [("ADDED", name, name)]


async def test_kopf_is_given_a_few_of_many_changes_at_a_time(feed: Feed) -> None:
    for number in range(MOST_IN_HAND + 30):
        feed.handler(TRAINING_JOBS)(None, an_object(f"job-{number}", uid=f"{number}"))
    async with await feed.request("get", f"{SERVER}{TRAINING_JOBS.path()}?watch=true") as answer:
        stream = answer.content.iter_chunked(1)
        assert len((await anext(stream)).splitlines()) == MOST_IN_HAND
        more = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        for number in range(20):
            feed.handled(TRAINING_JOBS, Key("ns", f"job-{number}"))
        assert len((await more).splitlines()) == 20


async def test_namespaces_take_turns_so_the_changes_of_one_do_not_hold_up_those_of_others(
    feed: Feed,
) -> None:
    for number in range(2000):
        feed.handler(TRAINING_JOBS)(None, an_object(f"{number}", uid=f"{number}", namespace="many"))
    feed.handler(TRAINING_JOBS)(None, an_object("one", uid="one", namespace="quiet"))
    told = await read(feed)
    assert told[:3] == [("ADDED", "0", "0"), ("ADDED", "one", "one"), ("ADDED", "1", "1")]


async def test_a_change_that_nobody_handles_grows_old() -> None:
    now = 0.0
    feed = Feed(FED, clock=lambda: now)
    feed.resume()
    feed.handler(TRAINING_JOBS)(None, an_object("first"))
    now = 5.0
    feed.handler(TRAINING_JOBS)(None, an_object("second"))
    now = 70.0
    assert feed.unhandled_seconds() == 70
    feed.handled(TRAINING_JOBS, Key("ns", "first"))
    assert feed.unhandled_seconds() == 65


@pytest.mark.usefixtures("kopf_watches")
async def test_while_paused_nothing_is_told(feed: Feed, told: Told) -> None:
    tell = feed.handler(TRAINING_JOBS)
    tell(None, an_object("told too late", uid="0"))
    feed.pause()
    tell(None, an_object("told while paused", uid="1"))
    assert feed.unhandled_seconds() == 0
    feed.resume()
    tell(None, an_object("told", uid="2"))
    assert await told.next() == Key("ns", "told")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/api/v1/pods"),
        ("patch", TRAINING_JOBS.path("ns", "job")),
        ("get", TRAINING_JOBS.path("ns")),
    ],
)
async def test_there_is_nothing_else_in_the_feed(feed: Feed, method: str, path: str) -> None:
    answer = await feed.request(method, SERVER + path)
    assert answer.status == 404
    assert f"{method.upper()} {path}: only /apis/spotrun.dev/" in await answer.text()
