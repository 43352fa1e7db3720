"""A search of real trainings, undisturbed and with lost nodes: no trial lost, the same best trial.

The trials are `tests/scripts/tuned_loop.py` under torchrun on process nodes of devcluster, in
deterministic mode; the operator is the real one, in this process. In the second search nodes on
which trials train lose their power, one after the other, and each is replaced by another node.

    tune_trials_lost         trials of both searches that did not succeed, or whose values, metric
                             or number differ between the searches
    tune_same_best           1 if both found the same best trial, with the same metric to all digits
    tune_cost_error_usd      for both, the difference between the cost in the search's status and
                             the sum of an independent meter that watches pods and nodes
    tune_turnaround_seconds  from a trial's last step to the first step of the next trial on that
                             node, in the undisturbed search; `parts` says where they went (medians)

Run as `.venv/bin/python -m bench.tuning_search [--quick] [--trials 24] [--nodes 4] [--lost 6]
[--seed 1] [--room 1]`; `--room` is the number of trials that a node has room for, `--turnaround`
leaves out the search with lost nodes, and `--late` imports nothing while torchrun starts. With
`--keep FOLDER` a search that has ended is stored there, and not run again.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.operator_bench import say
from bench.tuning_processes import watched_processes
from bench.tuning_times import Moments, medians, timeline, turnarounds, watch_trials
from devcluster.argument_types import how_many
from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.api.names import INSTANCE_TYPE_LABELS, ZONE_LABELS
from spotrun.kube.lease import Terms
from tests.integration.trainer.helpers import SCRIPTS, Place, open_telling_place
from tests.integration.trainer.traces import read_trace
from tests.meter.meter import PRICE, Meter, metered
from tests.support.cluster.operator_world import install_crds

USD_PER_HOUR = "36"  # a cent per second, so that one second without a charge is visible
STEPS_SEEN = 20  # steps of a trial before its node is lost
PATIENCE_SECONDS = 1800


@dataclass
class Found:
    """The end of a search."""

    outcomes: list[list[object]]  # number, values, end and metric of each trial, without its nodes
    best: list[object]
    usd: str
    cost_error_usd: float
    pauses: list[dict[str, float]]
    timeline: list[tuple[float, str]]
    cpu_seconds: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials, one node lost")
    parser.add_argument("--trials", type=how_many, default=24)
    parser.add_argument("--nodes", type=how_many, default=4)
    parser.add_argument("--lost", type=how_many, default=6)
    parser.add_argument("--seed", type=how_many, default=1)
    parser.add_argument("--room", type=how_many, default=1)
    parser.add_argument("--turnaround", action="store_true", help="the undisturbed search only")
    parser.add_argument("--late", action="store_true", help="torchrun by its own command")
    parser.add_argument("--keep", type=Path, help="a folder for searches that have ended")
    arguments = parser.parse_args()
    if arguments.late:
        Place.programs = Path(sys.executable).parent
    if arguments.quick:
        arguments.trials, arguments.nodes, arguments.lost = 3, 2, 1
    Place.patience_seconds = PATIENCE_SECONDS  # for all trials, one after the other
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        install_crds(cluster)
        for name in ("quiet", "disturbed"):
            (Path(folder) / name).mkdir()
        asyncio.run(compare(cluster, Path(folder), arguments))


async def compare(cluster: Cluster, folder: Path, arguments: argparse.Namespace) -> None:
    quiet = await kept(cluster, folder / "quiet", arguments, lost=0)
    facts = {"trials": arguments.trials, "nodes": arguments.nodes, "room": arguments.room}
    facts["late"] = arguments.late
    seconds = [round(one["all"], 2) for one in quiet.pauses]
    say("tune_turnaround_seconds", seconds, "s", parts=medians(quiet.pauses), **facts)
    if quiet.timeline:
        told = {"events": quiet.timeline, "cpu_seconds": quiet.cpu_seconds}
        say("tune_turnaround_timeline", quiet.timeline[-1][0], "s", **told)
    if arguments.turnaround:
        return
    disturbed = await kept(cluster, folder / "disturbed", arguments, lost=arguments.lost)
    pairs = zip(quiet.outcomes, disturbed.outcomes, strict=True)
    lost = sum(one != other or one[2] != "Succeeded" for one, other in pairs)
    facts["nodes_lost"] = arguments.lost
    say("tune_trials_lost", lost, "trials", **facts)
    say("tune_same_best", int(quiet.best == disturbed.best), "searches", best=quiet.best, **facts)
    errors = [one.cost_error_usd for one in (quiet, disturbed)]
    say("tune_cost_error_usd", max(errors), "usd", usd=disturbed.usd, **facts)


async def kept(cluster: Cluster, folder: Path, arguments: argparse.Namespace, lost: int) -> Found:
    """Return this search as an earlier run stored it, or run it, and store it."""
    if arguments.keep is None:
        return await search(cluster, folder, arguments, lost)
    names = ("trials", "nodes", "lost", "seed", "room", "late")
    asked = [getattr(arguments, name) for name in names]
    file = arguments.keep / f"{folder.name}.json"
    if file.exists():
        known = json.loads(file.read_text())
        if known["asked"] != asked:
            raise SystemExit(f"{file} belongs to another search: remove it, or use another folder")
        return Found(**known["found"])
    found = await search(cluster, folder, arguments, lost)
    file.write_text(json.dumps({"asked": asked, "found": asdict(found)}))
    return found


async def search(cluster: Cluster, folder: Path, arguments: argparse.Namespace, lost: int) -> Found:
    async with (
        open_telling_place(cluster, folder) as place,
        metered(place.kube, place.namespace) as meter,
    ):
        for number in range(arguments.nodes):
            await add_node(place, f"n{number}", arguments.room)
        await place.create_search(**await spec_of(place, arguments))
        seen: dict[str, Moments] = {}
        async with place.operator(terms=Terms()):
            looking = ExitStack()
            processes = looking.enter_context(watched_processes())
            watching = asyncio.create_task(watch_trials(place.kube, place.namespace, seen))
            dice = random.Random(arguments.seed)  # noqa: S311
            gone: set[str] = set()
            for number in range(lost):
                at_trial = (number + 1) * arguments.trials // (lost + 1)
                gone.add(await lose_a_node(place, at_trial, gone, dice))
                await add_node(place, f"r{number}", arguments.room)
            found = await place.until_search(lambda s: s.get("phase") == "Succeeded")
            looking.close()
            watching.cancel()
            error = await cost_error(place, meter, found["status"])
    status = found["status"]
    pauses = turnarounds(read_trace(folder / "notes.jsonl"), seen)
    return Found(
        [
            [one["number"], one["parameters"], one["phase"], one.get("value")]
            for one in status["history"]
        ],
        [status["best"]["name"], status["best"]["value"]],
        status["cost"]["usd"],
        error,
        pauses,
        *timeline(seen, processes),
    )


async def spec_of(place: Place, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [SCRIPTS / "tuned_loop.py", "--pause", 0.02, "--note", place.folder / "notes.jsonl"]
    container = {
        "name": "trainer",
        "image": "none",
        "args": [str(part) for part in command],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "objective": {"metric": "val_loss"},
        "search": {"sobol": {"seed": 3}},
        "parameters": [
            {"name": "lr", "logUniform": {"min": "1e-4", "max": "0.1"}},
            {"name": "width", "categorical": {"choices": ["4", "16", "64"]}},
        ],
        "trials": {"max": arguments.trials, "parallel": arguments.nodes},
        "budget": {"maxCostUsd": "1000"},
        "template": {
            "workers": {"template": {"spec": {"containers": [container]}}},
            "checkpoint": await place.claim(),
        },
    }


async def add_node(place: Place, name: str, room: int) -> None:
    """Add a node with room for this number of trials, with labels of a CapacityPool."""
    labels = {INSTANCE_TYPE_LABELS[0]: f"room-{room}", ZONE_LABELS[0]: "a"}
    capacity = {"cpu": str(room), "memory": "64Gi", "pods": "110"}
    await place.nodes.add(f"{place.namespace}-{name}", labels=labels, capacity=capacity)
    node = at("nodes", None, f"{place.namespace}-{name}")
    await place.kube.patch(node, {"metadata": {"annotations": {PRICE: USD_PER_HOUR}}})


async def lose_a_node(
    place: Place, at_trial: int, gone: Collection[str], dice: random.Random
) -> str:
    """Cut the power of a node on which a trial trains, after enough begun trials; return its name.

    For Kubernetes, pods of lost nodes still run until it deletes them.
    """
    notes = place.folder / "notes.jsonl"

    async def training() -> list[str]:
        lines = read_trace(notes)
        if len({line["job"] for line in lines}) < at_trial:
            return []
        running = {
            pod["metadata"]["labels"]["spotrun.dev/job"]: pod["spec"]["nodeName"]
            for pod in await place.kube.list(at("pods", place.namespace))
            if pod["status"].get("phase") == "Running" and pod["spec"]["nodeName"] not in gone
        }
        steps = {job: sum(line["job"] == job for line in lines) for job in running}
        return sorted(running[job] for job, made in steps.items() if made >= STEPS_SEEN)

    nodes: list[str] = await place.until(training)
    node = dice.choice(nodes)
    await place.nodes[node].vanish(delete_node=True)
    return node


async def cost_error(place: Place, meter: Meter, status: Manifest) -> float:
    """Return the difference between the search's own sum and the meter's."""
    total = Fraction(0)
    for one in status["history"]:
        job = f"search-{one['number']}"
        await meter.has_seen_all_ends(job)
        total += meter.usd(job, datetime.now(UTC))
    return float(abs(Fraction(Decimal(status["cost"]["usd"])) - total))


if __name__ == "__main__":
    main()
