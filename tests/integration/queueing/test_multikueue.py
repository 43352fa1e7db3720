"""Jobs that Kueue gives to another cluster; both have a Kueue and an operator."""

import pytest

from devcluster.client import ApiError, Manifest
from spotrun.api.names import MULTIKUEUE
from spotrun.policies.cost.billing.lines import JobLine, Standing
from tests.integration.money.test_bills import lines
from tests.integration.queueing.helpers import create_job, holds, make, workloads
from tests.support.cluster.operator_world import World
from tests.support.cluster.tcp_relay import Relay

PATIENCE_SECONDS = 60


async def _ended(world: World) -> dict[str, JobLine] | None:
    """Return the bill once all of its jobs are over there, which it may learn after they are."""
    found = await lines(world)
    is_over = all(one.standing in {Standing.ENDED, Standing.GONE} for one in found.values())
    return found if found and is_over else None


async def test_a_job_runs_in_the_other_cluster_and_is_billed_there_alone(
    manager: World, queued: World
) -> None:
    async with manager.operator(kueue=True), queued.operator(kueue=True):
        await create_job(manager, "job", 2, 2, managedBy=str(MULTIKUEUE))
        job = await manager.until_job(lambda s: s.get("workers", {}).get("running") == 2)
        assert job["status"]["phase"] in {"Starting", "Running"}
        (asked,) = await workloads(manager)
        (used,) = await workloads(queued)
        assert used["metadata"]["name"] == asked["metadata"]["name"]
        copy = await queued.job()
        assert [one["uid"] for one in used["metadata"]["ownerReferences"]] == [
            copy["metadata"]["uid"]
        ]
        assert await manager.pods() == []
        with pytest.raises(ApiError, match="managedBy cannot change"):
            await manager.patch_job({"managedBy": "example.com/other"})

        queued.play().may_finish.set()
        job = await manager.until_phase("Succeeded")
        await queued.kube.until(queued.jobs(), "job", gone, timeout_seconds=PATIENCE_SECONDS)
        assert len(await queued.until(lambda: _ended(queued))) == 1
        assert await lines(manager) == {}


async def test_a_job_that_is_suspended_or_deleted_leaves_the_other_cluster(
    manager: World, queued: World
) -> None:
    async with manager.operator(kueue=True), queued.operator(kueue=True):
        await create_job(manager, "job", 2, 2, managedBy=str(MULTIKUEUE))
        await queued.until_phase("Running")
        await manager.patch_job({"suspend": True})
        await queued.kube.until(queued.jobs(), "job", gone, timeout_seconds=PATIENCE_SECONDS)
        await manager.patch_job({"suspend": False})
        await queued.until_phase("Running")
        await manager.kube.delete(manager.jobs("job"))
        await queued.kube.until(queued.jobs(), "job", gone, timeout_seconds=PATIENCE_SECONDS)
        await queued.until_no_pods()


async def test_a_job_that_loses_its_quota_in_the_other_cluster_is_admitted_there_again(
    manager: World, queued: World
) -> None:
    """The manager's Kueue looks for a place anew; usually the job is not there until then.

    If the manager's Kueue reserves quota again before its part for MultiKueue has seen that there
    was none, the job stays there and waits in the queue: Kueue acts on what it sees last.
    """
    await make(queued, "WorkloadPriorityClass", f"high-{queued.namespace}", None, value=10)
    async with manager.operator(kueue=True), queued.operator(kueue=True):
        await create_job(manager, "job", 2, 2, managedBy=str(MULTIKUEUE))
        await queued.until_phase("Running")
        # Only of a workload that it has seen admitted, the manager's Kueue follows an eviction.
        await manager.until(lambda: _all_are(manager, "Admitted"))
        await create_job(queued, "urgent", 4, 4, priority_class=f"high-{queued.namespace}")
        await queued.until_phase("Running", "urgent")
        await queued.kube.until(
            queued.jobs(), "job", _has_no_worker, timeout_seconds=PATIENCE_SECONDS
        )

        queued.play("urgent").may_finish.set()
        await queued.until_phase("Running")
        queued.play().may_finish.set()
        await manager.until_phase("Succeeded")

        await manager.until(lambda: _all_are(manager, "Finished"))
        bill = await queued.until(lambda: _ended(queued))
        assert {one.name for one in bill.values()} == {"job", "urgent"}


def _has_no_worker(job: Manifest | None) -> bool:
    return job is None or not job["status"].get("workers", {}).get("running")


async def test_a_job_goes_on_and_ends_while_the_other_cluster_cannot_be_reached(
    manager: World, queued: World, link: Relay
) -> None:
    async with manager.operator(kueue=True), queued.operator(kueue=True):
        await create_job(manager, "job", 2, 2, managedBy=str(MULTIKUEUE))
        await manager.until_phase("Running")
        link.cut()
        queued.play().may_finish.set()
        await queued.until_phase("Succeeded")
        assert (await manager.job())["status"]["phase"] == "Running", "what was last heard of it"
        link.release()
        await manager.until_phase("Succeeded")
        await queued.kube.until(queued.jobs(), "job", gone, timeout_seconds=PATIENCE_SECONDS)
        assert len(await queued.until(lambda: _ended(queued))) == 1, "it was done once"


async def _all_are(world: World, condition: str) -> bool:
    return all(holds(one, condition) for one in await workloads(world))


def gone(found: Manifest | None) -> bool:
    return found is None
