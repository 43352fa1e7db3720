import asyncio

from spotrun.act.writes import Writes
from spotrun.kube.horizon import Horizon
from spotrun.kube.resource import Key, Resource
from tests.unit.act.helpers import NoCaches


async def test_a_status_does_not_wait_for_the_pods_of_another_job() -> None:
    horizon: Horizon[Key, Resource] = Horizon(NoCaches(), lambda: 0.0)
    writes = Writes(horizon, at_once=1)
    answered = asyncio.Event()

    async def slow() -> str:
        await answered.wait()
        return "made"

    async def quick() -> str:
        return "stored"

    gang = [asyncio.create_task(writes.do("create", slow)) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await writes.do("status", quick) == "stored"
    assert dict(writes.counts) == {"status": 1}

    answered.set()
    assert await asyncio.gather(*gang) == ["made"] * 3
