"""Models that two workers hold together, under the operator: copies are broken and completed."""

import time

from devcluster.client import Manifests
from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.integration.trainer.traces import pids_of, trains
from tests.support.jobs.statuses import failures_of

RACK = "example.com/rack"


async def test_the_mate_of_a_lost_worker_is_completed_and_goes_on(place: Place) -> None:
    await place.add_nodes("c", "d", "e")
    sizes = {"min": 2, "max": 4, "perReplica": 2}
    await place.start("parts.py", place.folder, *FOR_LONG, workers=4, sizes=sizes)
    async with place.operator():
        lines = await place.until_trace(trains(4))
        lost = next(line["pid"] for line in reversed(lines) if line["rank"] == 3)
        mate = next(line["pid"] for line in reversed(lines) if line["rank"] == 2)
        lost_at = time.time()
        await place.machine(await place.member(3)).vanish(delete_node=True)
        lines = await place.until_trace(trains(2))
        back_at = min(line["time"] for line in lines if line["size"] == 2)
        lines = await place.until_trace(
            lambda lines: trains(4)([x for x in lines if x["time"] > back_at])
        )
        job = await place.job()
        pods = await place.pods()
    print(f"a worker of two copies lost, the other copy goes on: {back_at - lost_at:.2f} s")
    assert job["status"]["world"]["entry"] == "Boundary"
    assert failures_of(job["status"]) == 0
    whole_again = [x for x in lines if x["size"] == 4 and x["time"] > back_at]
    assert mate in pids_of(whole_again), "its process lives on"
    assert lost not in pids_of(whole_again)
    states = {(line["step"], line["part"], line["weights"]) for line in lines}
    assert len(states) == len({(step, part) for step, part, _ in states}), "one state of each part"
    slots = sorted(pod["metadata"]["labels"]["spotrun.dev/slot"] for pod in pods)
    assert slots.count("0") == 2


async def test_the_only_copy_goes_on_from_its_local_tier(place: Place) -> None:
    """One node of the only copy is lost: nobody has its part but its neighbour's memory."""
    await place.add_nodes("c")
    durable = await place.claim()
    local = {"medium": "Memory", "sizeLimit": "64Mi", "every": "1s"}
    checkpoint = {**durable, "every": "1h", "local": local}
    sizes = {"min": 2, "max": 2, "perReplica": 2}
    await place.start("parts.py", place.folder, *FOR_LONG, sizes=sizes, checkpoint=checkpoint)
    async with place.operator():
        before = await place.until_trace(lambda lines: len(lines) > 300)
        await place.machine(await place.member(0)).vanish(delete_node=True)
        after = await place.until_trains(2, after=before)
        job = await place.job()
    survivor = {line["pid"] for line in before if line["rank"] == 1}
    done = max(line["step"] for line in place.trace() if line["pid"] in survivor)
    first = min(line["step"] for line in after)
    print(f"{done} steps were done, the next ones are from {first} on")
    assert 1 < first <= done + 1, "it began anew"
    assert job["status"]["world"]["entry"] == "Restart"
    assert not any(place.checkpoints.rglob("COMPLETE")), "nothing is durable yet"
    assert "checkpoint" not in job["status"]
    assert job["status"]["localCheckpoint"]["step"] > 1, "its tier is said to have it"
    states = {(line["step"], line["part"], line["weights"]) for line in place.trace()}
    assert len(states) == len({(step, part) for step, part, _ in states}), "one state of each part"


async def test_a_copy_that_torch_shards_is_completed_on_its_own_rack(place: Place) -> None:
    await place.add_nodes("r0", "r1", labels={RACK: "r"})
    sizes = {"min": 2, "max": 4, "perReplica": 2}
    racks = {"replicaTopology": {"required": RACK}}
    await place.start(
        "parts.py",
        *(place.folder, *FOR_LONG, "--by-torch"),
        workers=2,
        sizes=sizes,
        placement=racks,
    )
    async with place.operator():
        await place.until_trace(trains(2))
        await place.add_nodes("s0", "s1", "s2", labels={RACK: "s"})  # one more than a copy needs
        await place.patch_job({"workers": {"replicas": 4}})
        before = await place.until_trace(trains(4))
        lost_at = time.time()
        await place.machine(await place.member(3)).vanish(delete_node=True)
        lines = await place.until_trace(
            lambda lines: trains(2)([x for x in lines if x["time"] > lost_at])
        )
        back_at = max(line["time"] for line in lines if line["size"] == 2)
        lines = await place.until_trace(
            lambda lines: trains(4)([x for x in lines if x["time"] > back_at])
        )
        job, pods = await place.job(), await place.pods()
    assert failures_of(job["status"]) == 0
    assert {line["step"] for line in lines} == set(range(1, lines[-1]["step"] + 1)), "none lost"
    states = {(line["step"], line["part"], line["weights"]) for line in lines}
    assert len(states) == len({(step, part) for step, part, _ in states}), "one state of each part"
    mate = next(line["pid"] for line in reversed(before) if line["rank"] == 2)
    assert mate in pids_of(x for x in lines if x["time"] > back_at), "its process lives on"
    assert sorted(map(sorted, racks_of(pods).values())) == [["r"], ["s"]]


def racks_of(pods: Manifests) -> dict[str, set[str]]:
    """The racks that each copy is on: a node's name ends with its rack and a number."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        replica, node = pod["metadata"]["labels"]["spotrun.dev/replica"], pod["spec"]["nodeName"]
        found.setdefault(replica, set()).add(node.rpartition("-")[2][0])
    return found
