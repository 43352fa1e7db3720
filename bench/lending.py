"""A job lends a worker to a pod of higher priority: the time until the pod runs, and the cost.

The workers are real trainings under torchrun on process nodes of devcluster, one per node; the
scheduler and the operator are the real ones. A pod of a higher PriorityClass is created while both
nodes are used, and is deleted once the worker is lent and the other one trains.

    lending_seconds        from the creation of that pod until it runs on its node
    lending_stall_seconds  the longest pause between two steps of the worker that stays
    lending_back_seconds   from the pod's end until both workers train again

Run as `.venv/bin/python -m bench.lending [--quick] [--times 10]`.
"""

import argparse
import asyncio
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.operator_bench import say
from devcluster.argument_types import how_many
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.kube.lease import Terms
from tests.integration.trainer.helpers import FOR_LONG, Place, open_place
from tests.integration.trainer.traces import Trace
from tests.support.cluster.operator_world import install_crds

CLASSES = at("priorityclasses", group="scheduling.k8s.io/v1")
LENT, INFERENCE = "lent", "inference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="once")
    parser.add_argument("--times", type=how_many, default=10)
    arguments = parser.parse_args()
    times = 1 if arguments.quick else arguments.times
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        install_crds(cluster)
        asyncio.run(lend(cluster, Path(folder), times))


async def lend(cluster: Cluster, folder: Path, times: int) -> None:
    taken, stalls, back = list[float](), list[float](), list[float]()
    async with open_place(cluster, folder) as place:
        await place.add_nodes("a", "b")
        for name, value in ((LENT, -100), (INFERENCE, 1000)):
            await place.kube.create(CLASSES, {"metadata": {"name": name}, "value": value})
        lent = {"priorityClassName": LENT, "atLeast": 1}
        await place.start_run(*FOR_LONG, sizes={"min": 1, "max": 2}, placement={"lend": lent})
        async with place.operator(terms=Terms()):
            seen = await place.until_trains(2)
            for number in range(times):
                begun = time.time()
                await place.kube.create(at("pods", place.namespace), inference(number))
                await until_running(place, number)
                taken.append(time.time() - begun)
                alone = await until_steps(place, 1, since=begun)
                stalls.append(longest_pause(place.trace(), since=begun, until=alone))
                ended = time.time()
                path = at("pods", place.namespace, name_of(number))
                await place.kube.delete(path, grace_seconds=0)
                back.append(await until_steps(place, 2, since=ended) - ended)
        status = (await place.job())["status"]
    facts = {"workers": 2, "lent": 1, "times": times, "steps": len(seen)}
    lost = status["interruptions"].get("lostSteps", 0)
    say("lending_seconds", sorted(taken), "s", **facts)
    say("lending_stall_seconds", sorted(stalls), "s", lost_steps=lost, **facts)
    say("lending_back_seconds", sorted(back), "s", **facts)


def inference(number: int) -> Manifest:
    """Return a pod that needs a whole node."""
    container = {"name": "serve", "image": "none", "command": ["sleep", "600"]}
    spec = {
        "priorityClassName": INFERENCE,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    metadata = {"name": name_of(number)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def name_of(number: int) -> str:
    return f"inference-{number}"


async def until_running(place: Place, number: int) -> None:
    def runs(pod: Manifest | None) -> bool:
        return pod is not None and pod["status"].get("phase") == "Running"

    await place.kube.until(
        at("pods", place.namespace), name_of(number), runs, timeout_seconds=place.patience_seconds
    )


async def until_steps(place: Place, size: int, *, since: float) -> float:
    """Wait until a world of that size has made a step; returns when it did."""

    def made(lines: Trace) -> list[float]:
        return [line["time"] for line in lines if line["size"] == size and line["time"] > since]

    lines = await place.until_trace(lambda lines: bool(made(lines)))
    return min(made(lines))


def longest_pause(lines: Trace, *, since: float, until: float) -> float:
    """Return the longest pause of rank 0 around a change, in seconds."""
    steps = sorted(line["time"] for line in lines if line["rank"] == 0)
    around = [at for at in steps if since - 1 <= at <= until + 1]
    return max((after - before for before, after in pairwise(around)), default=0.0)


if __name__ == "__main__":
    main()
