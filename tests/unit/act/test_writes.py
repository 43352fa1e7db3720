"""In which order writes are sent, and that only the leader sends any."""

import asyncio
from functools import partial

import pytest

from spotrun.act.writes import Writes
from spotrun.kube.errors import NotLeading
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from tests.unit.act.helpers import NoCaches

HORIZON: Horizon[Key, Resource] = Horizon(NoCaches(), lambda: 0.0)


async def test_a_status_does_not_wait_for_the_pods_of_another_job() -> None:
    writes = Writes(HORIZON, lambda: True, at_once=1)
    answered = asyncio.Event()

    async def slow() -> str:
        await answered.wait()
        return "made"

    async def quick() -> str:
        return "stored"

    gang = [asyncio.create_task(writes.do("create", "team", slow)) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await writes.do("status", "team", quick) == "stored"
    assert dict(writes.counts) == {"status": 1}

    answered.set()
    assert await asyncio.gather(*gang) == ["made"] * 3


async def test_statuses_that_wait_come_before_pods_which_keep_a_quarter_of_the_slots() -> None:
    writes = Writes(HORIZON, lambda: True, at_once=4)
    answered, sent = asyncio.Event(), list[str]()

    async def send(kind: str) -> None:
        sent.append(kind)
        await answered.wait()

    tasks = [
        asyncio.create_task(writes.do(kind, "team", partial(send, kind)))
        for kind in ["status"] * 5 + ["create"] * 5
    ]
    await asyncio.sleep(0)
    assert sent == ["status"] * 4 + ["create"]
    answered.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)
    assert sent == ["status"] * 4 + ["create"] + ["status"] + ["create"] * 4


async def test_who_has_lost_the_lead_while_a_write_waited_does_not_send_it() -> None:
    leads = [True]
    writes = Writes(HORIZON, lambda: leads[0], at_once=1)
    answered, sent = asyncio.Event(), list[int]()

    async def send(number: int) -> int:
        sent.append(number)
        await answered.wait()
        return number

    tasks = [
        asyncio.create_task(writes.do("create", "team", partial(send, number)))
        for number in range(3)
    ]
    await asyncio.sleep(0)
    leads[0] = False
    answered.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert sent == [0]
    assert results[0] == 0
    assert [type(one) for one in results[1:]] == [NotLeading] * 2
    with pytest.raises(NotLeading):
        await writes.do("status", "team", partial(send, 3))
    assert dict(writes.counts) == {"create": 1}


async def test_who_writes_much_keeps_no_other_namespace_waiting() -> None:
    writes = Writes(HORIZON, lambda: True, at_once=1)
    sent = list[str]()

    async def send(name: str) -> None:
        sent.append(name)
        await asyncio.sleep(0)

    crowd = [
        asyncio.create_task(writes.do("create", "crowd", partial(send, "crowd"))) for _ in range(10)
    ]
    await asyncio.sleep(0)
    await writes.do("create", "quiet", partial(send, "quiet"))
    await asyncio.gather(*crowd)

    assert sent.index("quiet") == 2
