"""A search whose trials are real trainings: the best is what its own process has measured."""

import os
from decimal import Decimal
from typing import Any

from devcluster.client import at
from spotrun.api import load
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.jobs.tune.table import page
from tests.integration.money.helpers import PRICE
from tests.integration.trainer.helpers import SCRIPTS, Place

SEARCH: dict[str, Any] = {
    "objective": {"metric": "val_loss"},
    "search": {"sobol": {"seed": 3}},
    "parameters": [
        {"name": "lr", "logUniform": {"min": "1e-4", "max": "0.1"}},
        {"name": "width", "categorical": {"choices": ["4", "16", "64"]}},
    ],
    "trials": {"max": int(os.environ.get("SPOTRUN_TEST_TRIALS", "3")), "parallel": 2},
    "budget": {"maxCostUsd": "2"},
}


async def test_a_search_of_real_trainings_finds_the_one_that_fits_best(place: Place) -> None:
    await _create(place, SEARCH)
    async with place.operator():
        found = await place.until_search(lambda s: s.get("phase") == "Succeeded")
        jobs = {job["metadata"]["name"]: job for job in await place.kube.list(place.jobs())}
    status, most = found["status"], SEARCH["trials"]["max"]
    assert [one["phase"] for one in status["history"]] == ["Succeeded"] * most
    measured = {n: float(job["status"]["metrics"]["val_loss"]["value"]) for n, job in jobs.items()}
    assert status["best"]["name"] == min(measured, key=lambda name: measured[name])
    assert status["best"]["checkpoint"].startswith(f"{place.namespace}/{status['best']['name']}-")
    costs = [Decimal(one["usd"]) for one in status["history"]]
    assert Decimal(status["cost"]["usd"]) == sum(costs) < 2
    search = load(found)
    assert isinstance(search, TuningJob)
    print(page(search))


POPULATION: dict[str, Any] = {
    "objective": {"metric": "val_loss"},
    "search": {"population": {"size": 2, "stepsPerRound": 100, "seed": 1}},
    "parameters": [{"name": "lr", "logUniform": {"min": "1e-4", "max": "0.1"}}],
    "trials": {"max": 4, "parallel": 2},
}


async def test_members_of_a_population_go_on_from_the_best_ones_checkpoint(place: Place) -> None:
    await _create(place, POPULATION)
    async with place.operator():
        found = await place.until_search(lambda s: s.get("phase") == "Succeeded")
        jobs = {job["metadata"]["name"]: job for job in await place.kube.list(place.jobs())}
    history = found["status"]["history"]
    assert [one["phase"] for one in history] == ["Succeeded"] * 4
    better = min((0, 1), key=lambda number: float(history[number]["value"]))
    assert [one.get("parent") for one in history] == [None, None, better, better]
    rates = [float(one["parameters"]["lr"]) for one in history]
    assert rates[2 + better] == rates[better]
    assert rates[3 - better] not in rates[:2]
    steps = [jobs[f"search-{number}"]["status"]["progress"]["step"] for number in range(4)]
    assert steps == [100, 100, 200, 200], "the script itself would train for 300"
    metrics = [jobs[f"search-{number}"]["status"]["metrics"]["val_loss"] for number in range(4)]
    assert len({metric["value"] for metric in metrics}) == 4, "each trains with its own rate"
    search = load(found)
    assert isinstance(search, TuningJob)
    print(page(search))


async def _create(place: Place, search: dict[str, Any]) -> None:
    for name in ("a", "b"):
        node = at("nodes", None, f"{place.namespace}-{name}")
        await place.kube.patch(node, {"metadata": {"annotations": {PRICE: "1.20"}}})
    container = {"name": "trainer", "image": "none", "args": [str(SCRIPTS / "tuned_loop.py")]}
    template = {
        "workers": {"template": {"spec": {"containers": [container]}}},
        "checkpoint": await place.claim(),
    }
    await place.create_search(**search, template=template)
