"""Worlds that change under a training without a restart: its processes live on."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from spotrun_trainer.elastic.backends import nccl
from tests.integration.trainer.helpers import Place
from tests.integration.trainer.traces import pid_of, pids_of, steps_of, trains
from tests.support.cluster.operator_world import ROOT
from tests.support.jobs.statuses import failures_of

LONG = ("--steps", 100_000, "--pause", 0.02)


def parent_of(pid: int) -> int:
    """Its torchrun."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def start(
    place: Place, script: Path | str, workers: int, *, env: Mapping[str, str] = {}, **sizes: int
) -> None:
    """Start a job whose workers train for as long as the test takes."""
    least = {"min": 1, **sizes}
    await place.start(script, place.folder, *LONG, workers=workers, sizes=least, env=env)


async def test_a_survivor_goes_on_with_the_very_next_step(place: Place) -> None:
    await start(place, "in_process.py", 2)
    async with place.operator():
        lines = await place.until_trace(trains(2))
        survivor = pid_of(lines, 1)
        lost_at = time.time()
        await place.machine(await place.member(0)).vanish(delete_node=True)
        lines = await place.until_trace(trains(1))
        job = await place.job()
    steps = steps_of(lines, survivor)
    assert list(range(1, len(steps) + 1)) == steps
    back_at = min(line["time"] for line in lines if line["size"] == 1)
    print(f"rank 0 lost, the other one goes on: {back_at - lost_at:.2f} s")
    assert job["status"]["world"]["entry"] == "Abort"
    assert failures_of(job["status"]) == 0


async def test_over_nccl_survivors_go_on_if_they_are_asked_to(place: Place) -> None:
    """Both, though one of them is slow to free its GPU; and a replacement joins them.

    What carries the worlds is a stand-in, on the CPU.
    """
    await place.add_nodes("c", "d")
    env = {nccl.VARIABLE: "1", "PYTHONPATH": str(ROOT)}
    await start(place, "in_process_over_nccl.py", 3, env=env)
    async with place.operator():
        lines = await place.until_trace(trains(3))
        survivors, before = [pid_of(lines, rank) for rank in (1, 2)], pids_of(lines)
        await place.machine(await place.member(0)).vanish(delete_node=True)
        lines = await place.until_trace(
            lambda lines: any(x["size"] == 3 and x["pid"] not in before for x in lines)
        )
        status = (await place.job())["status"]
    for survivor in survivors:
        steps = steps_of(lines, survivor)
        assert list(range(1, len(steps) + 1)) == steps
    # The replacement may be warm before both are out of the broken world.
    worlds = [one["numbers"]["entry"] for one in status["decisions"] if one["what"] == "World"]
    assert worlds == ["Restart", "Abort", "Boundary"]
    assert failures_of(status) == 0


async def test_a_worker_that_a_signal_ends_is_left_out_before_it_has_ended(place: Place) -> None:
    """As on a node that shuts down, whose kubelet is the first to go."""
    await start(place, "in_process.py", 2)
    async with place.operator():
        lines = await place.until_trace(trains(2))
        leaver, survivor = pid_of(lines, 0), pid_of(lines, 1)
        os.kill(leaver, signal.SIGSTOP)
        os.kill(parent_of(leaver), signal.SIGTERM)
        await place.until_job(lambda status: status["world"]["members"] == "1")
        os.kill(leaver, signal.SIGCONT)
        lines = await place.until_trace(trains(1))
        job = await place.job()
    steps = steps_of(lines, survivor)
    assert list(range(1, len(steps) + 1)) == steps
    assert job["status"]["world"]["entry"] == "Boundary"
    assert failures_of(job["status"]) == 0


async def test_a_worker_whose_process_was_killed_comes_back_while_the_others_train(
    place: Place,
) -> None:
    await start(place, "in_process.py", 2)
    async with place.operator():
        lines = await place.until_trace(trains(2))
        killed, survivor = pid_of(lines, 0), pid_of(lines, 1)
        os.kill(killed, signal.SIGKILL)
        await place.until_trace(trains(1))
        before = pids_of(place.trace())
        lines = await place.until_trace(
            lambda lines: any(x["size"] == 2 and x["pid"] not in before for x in lines)
        )
        job = await place.job()
    steps = steps_of(lines, survivor)
    assert list(range(1, len(steps) + 1)) == steps
    assert job["status"]["world"]["entry"] == "Boundary"
    assert failures_of(job["status"]) == 1


async def test_a_training_grows_and_shrinks_under_way(place: Place) -> None:
    await start(place, "in_process.py", 1, max=2)
    async with place.operator():
        lines = await place.until_trace(trains(1))
        first = pid_of(lines, 0)
        await place.patch_job({"workers": {"replicas": 2}})
        await place.until_trace(trains(2))
        await place.patch_job({"workers": {"replicas": 1}})
        began = time.time()
        lines = await place.until_trace(
            lambda lines: any(x["size"] == 1 and x["time"] > began for x in lines)
        )
        job = await place.job()
    last = lines[-1]["step"]
    assert sorted({line["step"] for line in lines}) == list(range(1, last + 1))
    assert len(steps_of(lines, first)) >= len(lines) // 3
    assert job["status"]["world"]["entry"] == "Boundary"
    assert failures_of(job["status"]) == 0


async def test_too_few_survivors_go_on_with_the_very_next_step_once_a_replacement_is_there(
    place: Place,
) -> None:
    """It has to be scheduled, and to import PyTorch, while the survivor waits with the state."""
    await place.add_nodes("c")
    await start(place, "in_process.py", 2, min=2)
    async with place.operator():
        lines = await place.until_trace(trains(2))
        lost, survivor = pid_of(lines, 0), pid_of(lines, 1)
        await place.machine(await place.member(0)).vanish(delete_node=True)
        lines = await place.until_trace(
            lambda lines: any(line["pid"] not in {lost, survivor} for line in lines)
        )
        job = await place.job()
    steps = steps_of(lines, survivor)
    assert list(range(1, len(steps) + 1)) == steps
    came = next(line["step"] for line in lines if line["pid"] not in {lost, survivor})
    assert came >= max(steps_of(lines, lost))
    assert job["status"]["world"]["entry"] == "Abort"
    assert failures_of(job["status"]) == 0


async def test_a_process_that_hangs_is_left_out_and_comes_back_while_the_others_train(
    place: Place,
) -> None:
    sizes, hangs = {"min": 1}, {"hangAfter": "5s"}
    await place.start("in_process.py", place.folder, *LONG, sizes=sizes, failures=hangs)
    async with place.operator():
        # Before its first steps are told a process counts as one that loads or compiles.
        lines = await place.until_trace(lambda lines: any(line["step"] > 150 for line in lines))
        hung, well = pid_of(lines, 0), pid_of(lines, 1)
        os.kill(hung, signal.SIGSTOP)
        await place.until_trace(trains(1))
        lines = await place.until_trace(
            lambda lines: any(line["pid"] not in {hung, well} for line in lines)
        )
        job = await place.job()
        pods = await place.pods()
    steps = steps_of(lines, well)
    assert list(range(1, len(steps) + 1)) == steps, "no step is lost"
    assert job["status"]["world"]["entry"] == "Boundary"
    assert job["status"]["restarts"]["lastReason"] == "Hung"
    assert failures_of(job["status"]) == 1
    assert len(pods) == 2
    assert job["status"]["nextWorkerId"] == 2, "its pod stays"
