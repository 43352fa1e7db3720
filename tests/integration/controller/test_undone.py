"""Writes that fail for long: people are told why, and nothing else waits for them."""

from tests.support.cluster.operator_world import World
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
