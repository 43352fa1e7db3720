"""Writes that fail for long: people are told why, and nothing else waits for them."""

from devcluster.client import at
from tests.support.cluster.operator_world import World
from tests.support.cluster.quotas import limit
from tests.support.cluster.webhooks import down

ROOM = {"cpu": "64", "memory": "64Gi"}


async def test_a_webhook_that_is_down_is_named_in_the_status_and_in_an_event(
    world: World,
) -> None:
    await world.nodes.add("a", capacity=ROOM)
    async with world.operator():
        async with down(world, "CREATE"):
            await world.create_job()
            job = await world.until_job(lambda s: s.get("reason") == "WriteFailed")
            status = job["status"]
            assert status["phase"] == "Pending"
            assert 'failed calling webhook "pods.example.com"' in status["message"]
            written = {c["type"]: c["status"] for c in status["conditions"]}["Written"]
            assert written == "False"
            # A change of what is wanted does not wait for what fails.
            await world.patch_job({"suspend": True})
            await world.until_phase("Suspended")
            await world.patch_job({"suspend": False})
            await world.until_job(lambda s: s.get("reason") == "WriteFailed")
        await world.until_phase("Running")
        job = await world.until_job(lambda s: "Written" not in {c["type"] for c in s["conditions"]})
    assert "failed calling webhook" not in job["status"]["message"]


async def test_a_report_that_a_quota_refuses_is_told_and_its_job_stays_until_there_is_room(
    world: World,
) -> None:
    await world.nodes.add("a")
    await limit(world, "count/configmaps", 0)
    async with world.operator():
        await world.create_job(
            workers={"min": 1, "max": 1}, finished={"report": True, "deleteAfter": "1s"}
        )
        await world.until_phase("Running")
        world.play().may_finish.set()
        job = await world.until_job(lambda s: "Written" in {c["type"] for c in s["conditions"]})
        [written] = [c for c in job["status"]["conditions"] if c["type"] == "Written"]
        assert written["status"] == "False"
        assert "keeps failing" in written["message"]
        assert "exceeded quota: few" in written["message"]

        await limit(world, "count/configmaps", 9)

        async def is_deleted() -> bool:
            return await world.kube.list(world.jobs()) == []

        await world.until(is_deleted)
    of_jobs = await world.kube.list(at("configmaps", world.namespace))
    assert [one["metadata"]["name"] for one in of_jobs if "report" in one["metadata"]["name"]]
