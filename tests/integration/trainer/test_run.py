"""Loops with `Run` in pods of a real cluster: whatever happens, the weights are as if alone."""

import re
from itertools import pairwise
from typing import Any

from devcluster.client import Manifest
from spotrun.wire import WRONG_DEVICE
from tests.integration.trainer.helpers import COMPLETED, Place
from tests.integration.trainer.traces import differences, pid_of, pids_of, steps_of, trains
from tests.support.jobs.statuses import failures_of

Alone = dict[int, str]
STEPS = 400  # what tests/scripts/run_loop.py makes if nothing else is said


async def test_the_weights_are_the_same_at_every_size_and_whoever_is_lost(
    place: Place, alone: Alone
) -> None:
    await place.add_nodes("c")
    # Slow enough to be under way until the second one is lost, too.
    await place.start_run("--pause", 0.3, workers=3, sizes={"min": 1})
    async with place.operator():
        await place.until_trains(3)
        await place.machine(await place.member(0)).vanish(delete_node=True)
        await place.until_trains(2)
        await place.machine(await place.member(1)).vanish(delete_node=True)
        one = await place.until_trains(1)
        job = await place.job()
    assert one[0]["step"] in alone
    assert differences(place.trace(), alone) == set()
    made = steps_of(place.trace(), one[0]["pid"])
    # It notes after each attempt which step was done last; none is lost, and none is made again.
    assert {0, 1} >= {late - early for early, late in pairwise(made)}
    assert job["status"]["interruptions"]["count"] == 2
    assert failures_of(job["status"]) == 0
    assert job["status"]["progress"]["totalSteps"] == STEPS


async def test_a_node_whose_device_computes_wrong_numbers_is_left(
    place: Place, alone: Alone
) -> None:
    await place.add_nodes("c", "d")
    await place.start_run("--check-devices", 1000, workers=3)
    async with place.operator():
        await place.until_job(lambda s: "checkpoint" in s)
        wrong = (await place.member(1))["spec"]["nodeName"]
        before = place.trace()
        (place.folder / "wrong-node").write_text(wrong)
        job = await place.until_job(lambda s: failures_of(s) == 1)
        after = await place.until_trains(3, after=before)
        pods = [one for one in await place.pods() if one["status"]["phase"] == "Running"]
    assert job["status"]["restarts"]["lastReason"] == "FaultyDevice"
    assert WRONG_DEVICE in job["status"]["restarts"]["lastMessage"]
    assert wrong not in {pod["spec"]["nodeName"] for pod in pods}
    # Steps after the last check have wrong numbers, but no checkpoint has them.
    since = [line for line in place.trace() if line["pid"] in pids_of(after)]
    assert differences(since, alone) == set()


async def test_the_worker_for_which_all_wait_is_named_with_its_node(place: Place) -> None:
    await place.start_run("--steps", 100_000, "--pause", 0, "--compute", 0.02)
    mark = place.folder / "slow-node"
    async with place.operator():
        await place.until_trains(2)
        slow = await place.member(1)
        mark.write_text(slow["spec"]["nodeName"])
        job = await place.until_job(lambda s: _speed(s) is not None)
        message = str(_speed(job["status"]))
        label = slow["metadata"]["labels"]["spotrun.dev/worker-id"]
        assert message.startswith(f"worker {label} on node {slow['spec']['nodeName']} takes more")
        assert message.endswith("it computes longer")
        mark.unlink()
        await place.until_job(lambda s: _speed(s) is None)


async def test_a_slow_device_is_named_before_the_first_step(place: Place) -> None:
    slow = f"{place.namespace}-b"
    (place.folder / "slow-node").write_text(slow)
    await place.start_run("--check-speed", "--pause", 3)  # steps tell nothing for minutes
    async with place.operator():
        job = await place.until_job(lambda s: _speed(s) is not None)
    message = str(_speed(job["status"]))
    assert re.match(rf"worker \d on node {slow} is slow: before the first step", message), message


def _speed(status: Manifest) -> str | None:
    stated = {one["type"]: one["message"] for one in status["conditions"]}
    return stated.get("EvenSpeed")


async def test_a_suspended_training_goes_on_with_the_very_next_step(
    place: Place, alone: Alone
) -> None:
    await place.start_run()
    async with place.operator():
        await place.until_trains(2)
        await place.patch_job({"suspend": True})
        job = await place.until_job(
            lambda s: s["phase"] == "Suspended" and s.get("settled") == "0-1"
        )
        before = place.trace()
        assert job["status"]["checkpoint"]["step"] == before[-1]["step"]
        await place.patch_job({"suspend": False})
        after = await place.until_trains(2, after=before)
    assert [after[0]["step"]] == [before[-1]["step"] + 1]
    assert after[0]["step"] in alone
    assert differences(place.trace(), alone) == set()


async def test_a_training_grows_and_completes(place: Place, alone: Alone) -> None:
    await place.start_run(sizes={"min": 1, "replicas": 1})
    async with place.operator():
        await place.until_trains(1)
        await place.patch_job({"workers": {"replicas": 2}})
        await place.until_trains(2)
        job = await place.until_phase("Succeeded")
        words = (await place.until_all_ended()).values()
        await place.until_job(lambda s: s["metrics"]["loss"]["step"] == STEPS)
    world_number = job["status"]["world"]["number"]
    end = {"step": STEPS, "checkpoint": f"step-{STEPS}.g{world_number}"}
    assert list(words) == [{**COMPLETED, **end}] * 2
    assert job["status"]["checkpoint"]["name"] == end["checkpoint"]
    assert differences(place.trace(), alone) == set()


async def test_a_hang_is_found_and_a_long_evaluation_is_none(place: Place, alone: Alone) -> None:
    """Evaluation takes 8 s on each of two workers, 5 s without a sign of life are too long.

    Two are the fewest that may train, so the one that is well waits until the other one is back.
    """
    await place.start_run(
        *("--evaluate-at", 5, "--evaluation", 1, "--hang-at", 12), failures={"hangAfter": "5s"}
    )
    async with place.operator():
        await place.until_trace(lambda lines: any(line["step"] == 11 for line in lines))
        lines = await place.until_trace(
            lambda lines: trains(2)([line for line in lines if line["step"] > 14])
        )
        restarts = (await place.job())["status"]["restarts"]
    assert (restarts["failures"], restarts["lastReason"]) == (1, "Hung")
    # Steps are told twice a second.
    words = r"no step was finished for \d+s at step 1[01](: all stopped together)?"
    assert re.fullmatch(words, restarts["lastMessage"])
    hung, well = pid_of(lines[:12], 1), pid_of(lines[:12], 0)
    made = steps_of(lines, well)
    assert {0, 1} >= {late - early for early, late in pairwise(made)}, "no step comes again"
    assert max(steps_of(lines, hung)) == 11
    assert hung not in pids_of(line for line in lines if line["step"] > 14)
    assert differences(lines, alone) == set()


async def test_jobs_on_one_claim_keep_their_own_and_one_made_anew_goes_on_from_its_own(
    place: Place, alone: Alone
) -> None:
    async with place.operator():
        await _train(place, "job", 30)
        await _train(place, "other", 10)
        before = pids_of(place.trace())
        went_on = await _train(place, "job", 40)
        after = [line for line in place.trace() if line["pid"] not in before]
        was_complete = await _train(place, "job", 40)
    assert [line["step"] for line in after] == list(range(31, 41))
    assert differences(after, alone) == set()
    folder = place.checkpoints / place.namespace
    saved = {name: {path.name for path in (folder / name).iterdir()} for name in ("job", "other")}
    assert saved["job"] >= {"step-20.g1", "step-30.g1", "step-40.g1"}
    assert saved["other"] == {"step-10.g1", "logs"}
    assert went_on["world"]["restore"] == "step-30.g1"
    found = "training continues from step-30.g1, which was in the job's folder"
    assert found in {decision["why"] for decision in went_on["decisions"]}
    assert was_complete["checkpoint"]["name"] == "step-40.g1"
    assert was_complete["message"].startswith(
        "the training was complete already: it continued from step-40.g1, which was in the job's "
        "folder"
    )
    assert failures_of(was_complete) == 0


async def _train(place: Place, name: str, steps: int) -> Any:
    """The status of a job that has succeeded and is gone."""
    await place.start_run("--steps", steps, workers=1, name=name)
    job = await place.until_phase("Succeeded", name)
    await place.until_all_ended(name)
    await place.kube.delete(place.jobs(name))

    async def is_gone() -> bool:
        return not await place.pods(name)

    await place.until(is_gone)
    return job["status"]


async def test_a_folder_that_cannot_be_written_fails_the_job_with_the_reason(place: Place) -> None:
    await place.start_run(workers=1, failures={"maxRestarts": 0})
    (place.checkpoints / place.namespace).write_text("no directory")
    async with place.operator():
        job = await place.until_phase("Failed")
    assert job["status"]["reason"] == "TooManyRestarts"
    assert f"checkpoints cannot be written to {place.checkpoints}" in job["status"]["message"]
    assert place.trace() == []
