"""The operator is away, or asks the workers to leave."""

from tests.integration.trainer.helpers import COMPLETED, FOR_LONG, Place
from tests.support.jobs.statuses import failures_of


async def test_training_ends_well_without_the_operator(place: Place) -> None:
    await place.start("snapshots.py", place.folder, "--steps", 150, *FOR_LONG[2:])
    async with place.operator():
        await place.until_trains(2)
    assert list((await place.until_all_ended()).values()) == [{**COMPLETED, "step": 150}] * 2
    async with place.operator():
        job = await place.until_phase("Succeeded")
    assert (job["status"]["nextWorkerId"], job["status"].get("restarts")) == (2, None)


async def test_a_loss_without_the_operator_is_made_good_when_it_is_back(place: Place) -> None:
    await place.start("snapshots.py", place.folder, *FOR_LONG, sizes={"min": 1})
    async with place.operator():
        before = await place.until_trains(2)
    await place.machine(await place.member(0)).vanish(delete_node=True)
    async with place.operator():
        await place.until_trains(1, after=before)
        job = await place.job()
    assert failures_of(job["status"]) == 0


async def test_suspended_workers_leave_in_order_and_come_back(place: Place) -> None:
    await place.start("snapshots.py", place.folder, *FOR_LONG)
    async with place.operator():
        await place.until_trains(2)
        await place.patch_job({"suspend": True})
        job = await place.until_job(
            lambda s: s["phase"] == "Suspended" and s.get("settled") == "0-1"
        )
        assert failures_of(job["status"]) == 0
        before = place.trace()
        await place.patch_job({"suspend": False})
        after = await place.until_trains(2, after=before)
    assert after[0]["step"] % 5 == 1, "it begins with a snapshot"
