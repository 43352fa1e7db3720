"""Training processes fail: counted once, told in their own words, and started again."""

from devcluster.s3.server import Server
from tests.integration.trainer.helpers import Place

CRASH = ("--steps", 12, "--crash-at", 7)
WORDS = "rank 1 ended with exit code 1: ArithmeticError: loss is not finite"


async def test_a_crash_costs_one_restart(place: Place) -> None:
    await place.start("snapshots.py", place.folder, *CRASH, "--crash-once")
    async with place.operator():
        job = await place.until_phase("Succeeded")
    restarts = job["status"]["restarts"]
    assert (restarts["failures"], restarts["lastExitCode"]) == (1, 1)
    assert (job["status"]["world"]["number"], job["status"]["nextWorkerId"]) == (2, 2)


async def test_a_script_that_always_crashes_fails_the_job_in_its_own_words(place: Place) -> None:
    await place.start("snapshots.py", place.folder, *CRASH, failures={"maxRestarts": 0})
    async with place.operator():
        job = await place.until_phase("Failed")
        await place.until_all_ended()
    assert job["status"]["reason"] == "TooManyRestarts"
    assert WORDS in job["status"]["message"]


async def test_a_loop_that_cannot_save_where_it_is_told_to_never_begins(
    place: Place, s3: Server
) -> None:
    await place.start(
        "run_loop.py",
        place.folder,
        checkpoint={"uri": "s3://your-bucket/a"},
        failures={"maxRestarts": 0},
        env=s3.environment(),
    )
    async with place.operator():
        job = await place.until_phase("Failed")
        await place.until_all_ended()
    where = f"s3://your-bucket/a/{place.namespace}/job"
    said = f"ValueError: checkpoints cannot be kept in {where}: the bucket does not exist"
    assert said in job["status"]["message"]
    assert not (place.folder / "trace.jsonl").exists()
