from typing import Any

from devcluster.client import Manifest
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "64", "memory": "64Gi"}


def play_trials(world: World, *losses: float, search: str = "search") -> None:
    """Have each trial report its loss, and end."""
    for number, loss in enumerate(losses):
        play = world.play(f"{search}-{number}")
        play.metrics["loss"] = loss
        play.may_finish.set()


def trial(job: Manifest, number: int) -> Any:
    return job["status"]["history"][number]


async def test_a_search_tries_all_its_trials_and_names_the_best(world: World) -> None:
    await world.nodes.add("a", capacity=ROOM)
    play_trials(world, 0.9, 0.2, 0.5)
    await world.create_search(trials={"max": 3})
    async with world.operator():
        found = await world.until_search(lambda s: s.get("phase") == "Succeeded")
    best = found["status"]["best"]
    assert (best["trial"], best["name"], best["value"]) == (1, "search-1", "0.2")
    assert found["status"]["trials"]["summary"] == "3/3"
    assert best["parameters"] == trial(found, 1)["parameters"]
    job = await world.job("search-1")
    args = job["spec"]["workers"]["template"]["spec"]["containers"][0]["args"]
    assert args == ["train.py", f"--lr={best['parameters']['lr']}"]
