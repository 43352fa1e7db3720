"""A search on real nodes, of which one loses its power: no trial is lost, and none begins twice."""

from decimal import Decimal
from typing import Any

import pytest

from devcluster.client import Manifest, at
from tests.e2e import jobs
from tests.e2e.nodes import boot, cut_power
from tests.e2e.site import Site

pytestmark = pytest.mark.kind_only("it takes the power of a node")

TRIALS, STEPS = 6, 300
PAUSE_SECONDS = 0.1
WINDOW_STEPS = (20, 200)
"""A node is lost while a trial on it is between these: far from its start and from its end."""


def search(site: Site) -> Manifest:
    """Six trials of one worker each, two at once."""
    told = ("--pause", PAUSE_SECONDS, "--note", f"{jobs.OWN_FOLDER}/trace.jsonl")
    where = (site.image, site.cluster.placement)
    sizes = {"min": 1, "max": 1}
    trial = jobs.scripted(
        "trial", *where, "tuned_loop.py", *told, workers=1, sizes=sizes, checkpoint=jobs.on_claim()
    )
    spec = {
        "objective": {"metric": "val_loss"},
        "search": {"sobol": {"seed": 3}},
        "parameters": [
            {"name": "lr", "logUniform": {"min": "1e-4", "max": "0.1"}},
            {"name": "width", "categorical": {"choices": ["4", "16", "64"]}},
        ],
        "trials": {"max": TRIALS, "parallel": 2},
        "template": {"spec": trial["spec"]},
    }
    return {
        "apiVersion": jobs.GROUP,
        "kind": "TuningJob",
        "metadata": {"name": "search"},
        "spec": spec,
    }


async def test_a_search_outlives_a_node_that_loses_its_power(site: Site) -> None:
    await site.apply(search(site))
    name = await until_one_trains(site)
    (pod,) = await site.workers(name)
    node = pod["spec"]["nodeName"]
    await cut_power(site, node)
    try:
        status = await until_over(site)
    finally:
        await boot(site, node)

    assert status["phase"] == "Succeeded", status["message"]
    trials = status["history"]
    assert [(one["number"], one["phase"]) for one in trials] == [
        (number, "Succeeded") for number in range(TRIALS)
    ]
    assert status["best"]["value"] == min((one["value"] for one in trials), key=float)
    ledgers = [await site.status(f"search-{number}") for number in range(TRIALS)]
    spent = [Decimal(one.get("accumulators", {}).get("usd", "0")) for one in ledgers]
    assert [Decimal(one.get("usd", "0")) for one in trials] == spent
    assert Decimal(status["cost"]["usd"]) == sum(spent)
    lost = await site.status(name)
    assert lost["interruptions"]["count"] == 1
    ended = {line["job"] for line in await site.trace() if line["step"] == STEPS}
    assert ended == {f"search-{number}" for number in range(TRIALS)}


async def until_one_trains(site: Site) -> str:
    """Wait until a trial is far from its start and from its end; return its job's name."""
    first, last = WINDOW_STEPS

    def trains(job: Manifest | None) -> bool:
        step = ((job or {}).get("status") or {}).get("progress", {}).get("step") or 0
        return first <= step <= last

    path = at("trainingjobs", site.namespace, group=jobs.GROUP)
    patience = site.cluster.patience_seconds
    await site.kube.until(path, "search-0", trains, timeout_seconds=patience)
    return "search-0"


async def until_over(site: Site) -> dict[str, Any]:
    """Wait until the search has ended; return its status."""

    def is_over(one: Manifest | None) -> bool:
        return ((one or {}).get("status") or {}).get("phase") in {"Succeeded", "Failed"}

    path = at("tuningjobs", site.namespace, group=jobs.GROUP)
    patience = TRIALS * site.cluster.patience_seconds
    found = await site.kube.until(path, "search", is_over, timeout_seconds=patience)
    assert found is not None
    return dict(found["status"])
