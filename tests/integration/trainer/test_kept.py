"""Plain DDP loops that keep their state in memory, in pods of a real cluster."""

import pytest

from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.integration.trainer.traces import Trace
from tests.support.jobs.statuses import failures_of


def newest(lines: Trace) -> int:
    """The newest step that was done and kept."""
    steps: list[int] = [line["step"] for line in lines]
    return max(steps)


@pytest.mark.parametrize("rank", [0, 1])
async def test_a_power_cut_costs_no_step(place: Place, rank: int) -> None:
    """The replacement gets the state from the survivor; the bits are those of one training."""
    await place.add_nodes("c")
    await place.start("kept_loop.py", place.folder, *FOR_LONG)
    async with place.operator():
        before = await place.until_trains(2)
        await place.machine(await place.member(rank)).vanish(delete_node=True)
        after = await place.until_trains(2, after=before)
        job = await place.job()
    old = {line["pid"] for line in before}
    survivor = {line["pid"] for line in before if line["rank"] != rank}
    done = newest([line for line in place.trace() if line["pid"] in survivor])
    assert min(line["step"] for line in after) in (done + 1, done + 2), "kept, but not yet noted"
    assert failures_of(job["status"]) == 0
    bits: dict[int, set[str]] = {}
    for line in place.trace():
        bits.setdefault(line["step"], set()).add(line["weights"])
    assert all(len(each) == 1 for each in bits.values())
    assert {line["pid"] for line in place.trace()} > old


async def test_growth_and_shrinking_cost_no_step(place: Place) -> None:
    await place.add_nodes("c")
    await place.start("kept_loop.py", place.folder, *FOR_LONG, sizes={"min": 1, "max": 3})
    async with place.operator():
        await place.until_trains(2)
        for size in (3, 1):
            before = place.trace()
            await place.patch_job({"workers": {"replicas": size}})
            after = await place.until_trains(size, after=before)
            first = min(line["step"] for line in after)
            earlier = [line for line in place.trace() if line["time"] < after[0]["time"]]
            assert first in (newest(earlier) + 1, newest(earlier) + 2)
