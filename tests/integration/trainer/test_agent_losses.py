"""Workers are lost, and the others go on in another world."""

import os
import signal
import time

import pytest

from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.integration.trainer.traces import print_phases
from tests.support.jobs.statuses import failures_of


@pytest.mark.parametrize("rank", [0, 1])
async def test_a_lost_machine_is_replaced(place: Place, rank: int) -> None:
    """The survivor waits for the replacement, for two are the fewest that may train."""
    await place.add_nodes("c")
    await place.start("snapshots.py", place.folder, *FOR_LONG)
    async with place.operator():
        before = await place.until_trains(2)
        lost_at = time.time()
        await place.machine(await place.member(rank)).vanish(delete_node=True)
        after = await place.until_trains(2, after=before)
        job = await place.job()
    print_phases(f"machine of rank {rank} lost, two needed", after, job, lost_at)
    assert job["status"]["interruptions"]["count"] == 1
    assert failures_of(job["status"]) == 0
    assert after[0]["step"] % 5 == 1, "it begins with a snapshot"
    lost = [line for line in place.trace() if line["time"] < after[0]["time"]]
    assert after[0]["step"] > max(line["step"] for line in lost) - 10, "and with the newest"


@pytest.mark.parametrize("rank", [0, 1])
async def test_a_survivor_goes_on_alone_until_there_is_a_replacement(
    place: Place, rank: int
) -> None:
    await place.start("snapshots.py", place.folder, *FOR_LONG, sizes={"min": 1})
    async with place.operator():
        before = await place.until_trains(2)
        lost_at = time.time()
        await place.machine(await place.member(rank)).vanish(delete_node=True)
        alone = await place.until_trains(1, after=before)
        print_phases(f"machine of rank {rank} lost, one goes on", alone, await place.job(), lost_at)
        await place.add_nodes("c")
        await place.until_trains(2, after=[*before, *alone])


async def test_a_silent_machine_is_given_up(place: Place) -> None:
    """Stopped, not ended: its connections stay open, and only its heartbeats are missed."""
    await place.start("snapshots.py", place.folder, *FOR_LONG, sizes={"min": 1})
    async with place.operator() as operator:
        before = await place.until_trains(2)
        operator._leading_since -= 100  # at first a new leader concludes nothing from silence
        silent = await place.member(0)
        silent_at = time.time()
        place.machine(silent).go_silent()
        for pid in place.processes(silent):
            os.kill(pid, signal.SIGSTOP)
        after = await place.until_trains(1, after=before)
        job = await place.job()
    print_phases("machine of rank 0 silent, one goes on", after, job, silent_at)
    assert failures_of(job["status"]) == 0


async def test_a_worker_killed_on_a_healthy_machine_is_one_failure(place: Place) -> None:
    """Its peer's script fails as well, which counts for nothing."""
    await place.start("snapshots.py", place.folder, *FOR_LONG)
    async with place.operator():
        before = await place.until_trains(2)
        for pid in place.processes(await place.member(1)):
            os.kill(pid, signal.SIGKILL)
        await place.until_trains(2, after=before)
        restarts = (await place.job())["status"]["restarts"]
    assert (restarts["failures"], restarts["lastExitCode"]) == (1, 137)
