import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.kube.backoff import Backoff
from spotrun.kube.errors import Retryable
from spotrun.kube.workqueue.queue import WorkQueue

QUICK = Backoff(0.001, 0.01)


@contextlib.asynccontextmanager
async def running(
    queue: WorkQueue[str], work: Callable[[str], Awaitable[float | None]], workers: int = 2
) -> AsyncIterator[asyncio.Task[None]]:
    task: asyncio.Task[None] = asyncio.create_task(queue.run(work, workers=workers))
    try:
        yield task
        assert not task.done(), "nothing may end a queue"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Recorder:
    """Work that does nothing but to be counted."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self._news = asyncio.Condition()

    async def __call__(self, key: str) -> float | None:
        self.runs.append(key)
        async with self._news:
            self._news.notify_all()
        return None

    async def until(self, *runs: str) -> None:
        async with asyncio.timeout(5), self._news:
            await self._news.wait_for(lambda: len(self.runs) >= len(runs))
        assert self.runs == list(runs)


async def test_a_queue_that_is_closed_keeps_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("before")
    queue.add_after("alarm", 0.0)
    queue.close()
    queue.add("meanwhile")
    queue.add_after("meanwhile", 0.0)
    assert queue.waiting() == 0
    queue.open()
    queue.add("after")
    work = Recorder()
    async with running(queue, work, workers=1):
        await work.until("after")


async def test_keys_are_worked_on_as_they_come() -> None:
    queue: WorkQueue[str] = WorkQueue()
    work = Recorder()
    queue.add("a")
    async with running(queue, work, workers=1):
        await work.until("a")
        queue.add("b")
        await work.until("a", "b")
        queue.add_after("c", 0.01)
        await work.until("a", "b", "c")
        assert queue.waiting() == 0
        assert queue.oldest_seconds() == 0


async def test_work_says_when_to_come_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    again: list[float | None] = [0.001, 0.0, None]
    runs = 0
    over = asyncio.Event()

    async def work(_: str) -> float | None:
        nonlocal runs
        runs += 1
        if not again[1:]:
            over.set()
        return again.pop(0)

    queue.add("a")
    async with running(queue, work):
        await asyncio.wait_for(over.wait(), 5)
    assert runs == 3


async def test_no_more_at_once_than_workers_and_a_slow_key_holds_up_no_other() -> None:
    queue: WorkQueue[str] = WorkQueue()
    gate, others = asyncio.Event(), asyncio.Event()
    at_once = most = finished = 0

    async def work(key: str) -> float | None:
        nonlocal at_once, most, finished
        at_once += 1
        most = max(most, at_once)
        if key == "slow":
            await gate.wait()
        for _ in range(4):
            await asyncio.sleep(0)
        at_once -= 1
        finished += 1
        if finished == 50:
            others.set()
        return None

    queue.add("slow")
    for number in range(50):
        queue.add(f"k{number}")
    async with running(queue, work, workers=3):
        await asyncio.wait_for(others.wait(), 5)
        gate.set()
    assert most == 3


async def test_what_one_key_sends_does_not_wait_until_all_others_are_worked_on() -> None:
    queue: WorkQueue[str] = WorkQueue()
    seen, ended = list[str](), asyncio.Event()

    async def work(key: str) -> None:
        seen.append(f"decides {key}")
        await asyncio.sleep(0)
        seen.append(f"sends {key}")
        if key == "c":
            ended.set()

    for key in "abc":
        queue.add(key)
    async with running(queue, work, workers=3):
        await asyncio.wait_for(ended.wait(), 5)
    assert seen == [f"{what} {key}" for key in "abc" for what in ("decides", "sends")]


async def test_a_key_that_raises_comes_again_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=QUICK)
    good = Recorder()
    failures = 3
    healed = asyncio.Event()

    async def work(key: str) -> float | None:
        nonlocal failures
        if key != "poison":
            return await good(key)
        if failures:
            failures -= 1
            raise (ValueError("a bug") if failures else Retryable("injected"))
        assert queue.failures(key) == 3
        healed.set()
        return None

    queue.add("poison")
    async with running(queue, work, workers=1):
        queue.add("a")
        await good.until("a")
        await asyncio.wait_for(healed.wait(), 5)
    assert [bool(record.exc_info) for record in caplog.records] == [True, True, False], (
        "what Kubernetes said needs no traceback, a bug does"
    )


async def test_a_cancelled_run_is_not_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begun = asyncio.Event()

    async def hang(_: str) -> float | None:
        begun.set()
        await asyncio.Event().wait()
        return None

    queue.add("a")
    async with running(queue, hang):
        await asyncio.wait_for(begun.wait(), 5)
    work = Recorder()
    async with running(queue, work):
        await work.until("a")


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 4),
)
def test_every_add_is_followed_by_a_run_that_began_after_it(
    adds: list[tuple[str, bool]], workers: int
) -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue(backoff=QUICK)
        tick = 0
        added: dict[str, int] = {}
        began: dict[str, int] = {}
        busy: set[str] = set()
        quiet = asyncio.Event()

        async def work(key: str) -> float | None:
            nonlocal tick
            assert key not in busy, "never two at once for a key"
            busy.add(key)
            tick += 1
            began[key] = tick
            for _ in range(ord(key) % 3):
                await asyncio.sleep(0)
            busy.discard(key)
            if all(began.get(k, 0) > at for k, at in added.items()) and not pending:
                quiet.set()
            return None

        pending = list(adds)
        async with running(queue, work, workers):
            while pending:
                key, pause = pending.pop()
                tick += 1
                added[key] = tick
                queue.add(key, urgent=pause)
                if pause:
                    await asyncio.sleep(0)
            await asyncio.wait_for(quiet.wait(), 5)

    asyncio.run(history())
