"""Changes that were planned, of scripts that know nothing of spotrun.

Nothing is waited for in vain, and a script that saves when it is told to end has the time to.
"""

import time
from collections.abc import Callable

from tests.integration.trainer.helpers import Place
from tests.integration.trainer.traces import Trace, pids_of, trains
from tests.support.cluster.operator_world import ROOT
from tests.support.jobs.statuses import failures_of

SCRIPT = ROOT / "bench" / "scripts_training.py"
WAITED_IN_VAIN_SECONDS = 100
"""Less than the 110 s that a trainer which follows orders may take for its checkpoint."""


def steps(lines: Trace) -> Trace:
    return [line for line in lines if "step" in line]


def step_made(size: int, old: frozenset[int] = frozenset()) -> Callable[[Trace], bool]:
    """Holds once all ranks of a world of that size have made a step, in new processes."""
    return lambda lines: trains(size, but=old)(steps(lines))


def saved(lines: Trace) -> list[int]:
    return [line["saved"] for line in lines if line["rank"] == 0 and "saved" in line]


async def test_a_script_saves_when_it_is_told_to_end_at_every_change(place: Place) -> None:
    await place.start(
        *(SCRIPT, "told", place.folder, "--save-seconds", 1),
        workers=1,
        sizes={"min": 1, "max": 2},
        checkpoint=await place.claim(),
    )
    async with place.operator():
        await place.until_trace(step_made(1))
        for size in (2, 1):
            old, began = pids_of(place.trace()), time.monotonic()
            await place.patch_job({"workers": {"replicas": size}})
            lines = await place.until_trace(step_made(size, old))
            assert time.monotonic() - began < WAITED_IN_VAIN_SECONDS
            first = min(x["step"] for x in steps(lines) if x["pid"] not in old)
            assert first == saved(lines)[-1] + 1, "it goes on from where it was told"
        before, began = len(saved(place.trace())), time.monotonic()
        await place.patch_job({"suspend": True})
        await place.until_all_ended()
        assert len(saved(place.trace())) == before + 1
        assert time.monotonic() - began < WAITED_IN_VAIN_SECONDS
        status = (await place.job())["status"]
        assert (failures_of(status), "orders" in status) == (0, False)


async def test_a_script_that_writes_over_its_snapshot_is_not_ended_in_the_midst_of_it(
    place: Place,
) -> None:
    await place.start(
        *(SCRIPT, "in-place", place.folder, "--ballast-mb", 64),
        workers=1,
        sizes={"min": 1, "max": 2},
        checkpoint=await place.claim(),
    )
    async with place.operator():
        await place.until_trace(step_made(1))
        for size in (2, 1):
            old = pids_of(place.trace())
            await place.patch_job({"workers": {"replicas": size}})
            await place.until_trace(step_made(size, old))
        assert failures_of((await place.job())["status"]) == 0
