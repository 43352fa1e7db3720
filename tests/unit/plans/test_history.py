"""What was recorded: in order, and complete before it is judged."""

import asyncio

import pytest

from tests.plans.history import History, worlds
from tests.unit.plans.objects import a_job, a_pod, a_world


async def test_events_of_two_watches_are_put_in_order() -> None:
    history = History()
    for event in (a_pod(5), a_job(2), a_pod(3, worker_id=1), a_job(4)):
        await history.add(event)
    assert [event.version for event in history.in_order()] == [2, 3, 4, 5]


async def test_it_is_waited_for_every_kind_that_is_behind() -> None:
    history = History()
    await history.add(a_pod(5))
    waiting = asyncio.create_task(history.has_seen(5, "Pod", "TrainingJob"))
    await history.add(a_job(4))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.05)
    await history.add(a_job(6))
    await asyncio.wait_for(waiting, 5)


def test_a_world_counts_once_it_is_active_and_only_once() -> None:
    told = [
        a_job(1, world=a_world(1, "0-1")),
        a_job(2, world=a_world(2, "0-2", active=False)),
        a_job(3, world=a_world(3, "0,2")),
        a_job(4, world=a_world(3, "0,2")),
    ]
    assert worlds([a_pod(5), a_job(6), *told]) == [{0, 1}, {0, 2}]
