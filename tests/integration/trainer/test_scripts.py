"""Plain DDP scripts, which know nothing of spotrun, in pods of a real cluster."""

import asyncio

from tests.integration.scaling.helpers import events_of
from tests.integration.trainer.helpers import COMPLETED, FOR_LONG, Place
from tests.support.jobs.statuses import failures_of


async def test_a_plain_loop_succeeds(place: Place) -> None:
    await place.start("plain_loop.py", "--trace", place.folder / "trace.jsonl", "--steps", 5)
    async with place.operator():
        await place.until_phase("Succeeded")
        assert list((await place.until_all_ended()).values()) == [{**COMPLETED, "step": 5}] * 2
    ranks = {(line["rank"], line["size"], line["step"]) for line in place.trace()}
    assert ranks == {(rank, 2, step) for rank in (0, 1) for step in range(5)}


async def test_a_script_with_snapshots_succeeds(place: Place) -> None:
    await place.start("snapshots.py", place.folder, "--steps", 8)
    async with place.operator():
        await place.until_phase("Succeeded")
    assert [line["step"] for line in place.trace() if line["rank"] == 0] == [*range(1, 9)]
    assert (place.folder / "snapshot.pt").exists()


async def test_a_script_with_epochs_succeeds(place: Place) -> None:
    await place.start("epochs.py", place.folder)
    async with place.operator():
        await place.until_phase("Succeeded")
    assert [line["step"] for line in place.trace()] == [0, 1, 2]
    assert place.trace()[-1]["accuracy"] > 0.8


async def test_steps_of_a_script_arrive_in_status(place: Place) -> None:
    await place.start("plain_loop.py", *FOR_LONG)
    said = {"spotrun.dev/total-steps": "100000"}
    await place.kube.patch(place.jobs("job"), {"metadata": {"annotations": said}})
    async with place.operator():
        job = await place.until_job(lambda it: it.get("progress", {}).get("step", 0) > 40)
    progress = job["status"]["progress"]
    assert progress["totalSteps"] == 100_000
    assert progress["percent"] == "0%"


async def test_a_script_that_hangs_is_found(place: Place) -> None:
    hang = ("--steps", 100_000, "--pause", 0.02, "--hang-at", 40)
    await place.start("plain_loop.py", *hang, failures={"hangAfter": "5s"})
    async with place.operator():
        job = await place.until_job(lambda it: it.get("restarts", {}).get("failures", 0) > 0)
    restarts = job["status"]["restarts"]
    assert restarts["lastReason"] == "Hung"
    assert "no step was finished for" in restarts["lastMessage"]


async def test_a_script_that_takes_one_size_only_waits_for_it_after_a_loss(place: Place) -> None:
    """No restart is allowed, so that a single counted failure would end the job."""
    trace = ("--trace", place.folder / "trace.jsonl")
    await place.start(
        "plain_loop.py", *FOR_LONG, *trace, "--only-size", 2,
        sizes={"min": 1}, failures={"maxRestarts": 0},
    )  # fmt: skip
    async with place.operator():
        before = await place.until_trains(2)
        await place.until_job(lambda it: "sizes" in it.get("restarts", {}))
        await place.machine(await place.member(1)).vanish(delete_node=True)
        waits = await place.until_job(lambda it: it.get("reason") == "SizeRefused")
        assert "num_nodes=2, but 1 are there" in waits["status"]["message"]
        await place.add_nodes("c")
        await place.until_trains(2, after=before)
        job = await place.job()
    assert (job["status"]["phase"], failures_of(job["status"])) == ("Running", 0)
    assert not job["status"]["restarts"].get("blamed")


async def test_what_another_size_does_to_the_batch_is_said_everywhere_once(place: Place) -> None:
    trace = ("--trace", place.folder / "trace.jsonl")
    await place.start("plain_loop.py", *FOR_LONG, *trace, sizes={"min": 1})
    async with place.operator():
        before = await place.until_trains(2)
        await place.until_job(lambda it: it.get("restarts", {}).get("sizes", {}).get("trained"))
        await place.patch_job({"workers": {"replicas": 1}})
        await place.until_trains(1, after=before)
        change = (await place.until_job(lambda it: "batchChange" in it))["status"]["batchChange"]
        assert (change["fromWorkers"], change["toWorkers"]) == (2, 1)
        assert "0.5 times as many samples" in change["message"]
        told = await place.until(lambda: events_of(place, "BatchChanged"))
        assert [one["note"] for one in told] == [change["message"]]
        rank_0 = (await place.member(0))["metadata"]["name"]
        arguments = ("logs", "-n", place.namespace, rank_0)
        log = (await asyncio.to_thread(place.cluster.kubectl, *arguments)).stdout
    assert log.count("1 processes train instead of 2: ") == 1
