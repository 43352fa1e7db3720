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
    for name in ("a", "b"):
        node = at("nodes", None, f"{place.namespace}-{name}")
        await place.kube.patch(node, {"metadata": {"annotations": {PRICE: "1.20"}}})
    container = {"name": "trainer", "image": "none", "args": [str(SCRIPTS / "tuned_loop.py")]}
    template = {
        "workers": {"template": {"spec": {"containers": [container]}}},
        "checkpoint": await place.claim(),
    }
    await place.create_search(**SEARCH, template=template)
    async with place.operator():
        found = await place.until_search(lambda s: s.get("phase") == "Succeeded")
        jobs = {job["metadata"]["name"]: job for job in await place.kube.list(place.jobs())}
    status, most = found["status"], SEARCH["trials"]["max"]
    assert [one["phase"] for one in status["history"]] == ["Succeeded"] * most
    measured = {n: float(job["status"]["metrics"]["val_loss"]["value"]) for n, job in jobs.items()}
    assert status["best"]["name"] == min(measured, key=lambda name: measured[name])
    assert status["best"]["checkpoint"].startswith(f"{place.namespace}/{status['best']['name']}/")
    costs = [Decimal(one["usd"]) for one in status["history"]]
    assert Decimal(status["cost"]["usd"]) == sum(costs) < 2
    search = load(found)
    assert isinstance(search, TuningJob)
    print(page(search))
