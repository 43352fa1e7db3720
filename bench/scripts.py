"""The cost of a planned change for a script that does not use spotrun.

The script is `bench/scripts_training.py`, plain DDP with a claim for its snapshots, on process
nodes under the operator's own code.

    planned_change_seconds   without the script's own save, for a script that saves when it gets
                             SIGTERM: `up` and `down` from the change of spec.replicas to the first
                             step of all ranks of the new world, `suspend` until none of its
                             processes is left
    planned_change_failures  failures that are counted for a script that overwrites its last
                             snapshot and is interrupted by such changes

    script_restart_seconds  for each framework and plain DDP, from the power cut of one of two nodes
                            to the first step of the other one, in new processes
    script_steps_lost       for each with its adapter, steps that were repeated after a notice of a
                            minute, with a replacement that is ready in time

    hook_overhead_percent   the cost of counting a script's steps, for steps of 50 ms: see
                             bench/scripts_hook.py

Run as `.venv/bin/python bench/scripts.py [--quick] [--repeats 3] [--only suspend]`;
`--only=lost` and `--only=notice` run the frameworks, `--scripts=lightning` only one of them;
`--scripts=torchtitan` needs what `make test-torchtitan` fetches.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.operator_bench import say
from bench.scripts_events import ASKED_FOR, SCRIPTS, lasts, lost, noticed, steps
from bench.scripts_hook import hook_overheads
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import Place, open_telling_place
from tests.integration.trainer.traces import pids_of, trains
from tests.support.cluster.operator_world import ROOT, install_crds
from tests.support.jobs.statuses import failures_of

SCRIPT = ROOT / "bench" / "scripts_training.py"
EVENTS = ("failures", "hook", "lost", "notice")
AHEAD_SECONDS = 35.0
"""Spare interpreters start 20 s after a start, and import PyTorch for a while."""
CHANGES = {"up": 3, "down": 2, "suspend": 0}
"""The changes in order, each with the size after it; the first begins with two workers."""
SIZE, MOST = 2, 3
SAVE_SECONDS = 2.0
BALLAST_MB = 100


@dataclass(frozen=True)
class Cost:
    """The cost of a change, without the script's own save."""

    seconds: float
    save_seconds: float
    stalled_seconds: float = 0.0  # the part of `seconds` since the last step before it


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="each change once; one framework, with --only"
    )
    parser.add_argument("--repeats", type=how_many, default=3)
    parser.add_argument("--only", default="", choices=["", *CHANGES, *EVENTS])
    parser.add_argument("--scripts", nargs="*", default=SCRIPTS, choices=(*SCRIPTS, ASKED_FOR))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats, arguments.scripts = 1, SCRIPTS[:1] if arguments.only else ()
    if arguments.only in {"", "hook"}:
        overheads = hook_overheads(rounds=1 if arguments.quick else 5)
        say("hook_overhead_percent", [max(one, 0.0) for one in overheads], "%")
    if arguments.only == "hook":
        return
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        asyncio.run(measure(cluster, Path(scratch), arguments))


async def measure(cluster: Cluster, scratch: Path, arguments: argparse.Namespace) -> None:
    ahead_seconds = 0.0 if arguments.quick else AHEAD_SECONDS
    if arguments.only in {"", *CHANGES}:
        found = [
            await told(cluster, new_folder(scratch, f"told-{repeat}"), ahead_seconds)
            for repeat in range(arguments.repeats)
        ]
        for change in CHANGES:
            if arguments.only in {"", change}:
                costs = [one[change] for one in found]
                save_seconds = max(cost.save_seconds for cost in costs)
                say(
                    "planned_change_seconds",
                    [cost.seconds for cost in costs],
                    "s",
                    change=change,
                    save_seconds=round(save_seconds, 1),
                    stalled_seconds=[round(cost.stalled_seconds, 1) for cost in costs],
                )
    if arguments.only in {"", "failures"}:
        ballast_mb = 10 if arguments.quick else BALLAST_MB
        failures = [
            await in_place(cluster, new_folder(scratch, f"in-place-{repeat}"), ballast_mb)
            for repeat in range(arguments.repeats)
        ]
        say("planned_change_failures", sum(failures), "failures", changes=2 * len(failures))
    for script in arguments.scripts:
        if arguments.only in {"", "lost"}:
            await say_losses(cluster, scratch, script, arguments.repeats, ahead_seconds)
        if arguments.only in {"", "notice"}:
            await say_notices(cluster, scratch, script, arguments.repeats)


async def say_losses(
    cluster: Cluster, scratch: Path, script: str, repeats: int, ahead_seconds: float
) -> None:
    found = [
        await lost(
            cluster, new_folder(scratch, f"lost-{script}-{repeat}"), script,
            adapter=False, ahead_seconds=ahead_seconds,
        )
        for repeat in range(repeats)
    ]  # fmt: skip
    failures = sum(one.failures for one in found)
    seconds = [one.seconds for one in found]
    say("script_restart_seconds", seconds, "s", script=script, failures=failures)


async def say_notices(cluster: Cluster, scratch: Path, script: str, repeats: int) -> None:
    found = [
        await noticed(
            cluster, new_folder(scratch, f"notice-{script}-{repeat}"), script, adapter=True
        )
        for repeat in range(repeats)
    ]
    seconds = [round(one.seconds, 1) for one in found]
    failures = sum(one.failures for one in found)
    steps_lost = sum(one.steps_lost for one in found)
    say("script_steps_lost", steps_lost, "steps", script=script, seconds=seconds, failures=failures)


async def told(cluster: Cluster, folder: Path, ahead_seconds: float) -> dict[str, Cost]:
    """Measure the cost of each change for a script that saves when it gets SIGTERM.

    There is enough time between the changes for the next world's spare processes to start.
    """
    async with open_telling_place(cluster, folder) as place:
        await start(place, "told", "--save-seconds", SAVE_SECONDS)
        async with place.operator():
            await place.until_trace(lambda lines: trains(SIZE)(steps(lines)))
            costs = {}
            for change in CHANGES:
                await place.until_trace(lambda lines: lasts(lines, ahead_seconds))
                costs[change] = await cost(place, change)
            return costs


async def in_place(cluster: Cluster, folder: Path, ballast_mb: int) -> int:
    """Return the number of failures of a script that always overwrites its only snapshot."""
    async with open_telling_place(cluster, folder) as place:
        await start(place, "in-place", "--ballast-mb", ballast_mb)
        async with place.operator():
            await place.until_trace(lambda lines: trains(SIZE)(steps(lines)))
            for change in ("up", "down"):
                await cost(place, change)
            return failures_of((await place.job())["status"])


async def start(place: Place, way: str, *arguments: object) -> None:
    await place.add_nodes(*(f"n{number}" for number in range(MOST)))
    sizes = {"min": 1, "max": MOST}
    await place.start(
        SCRIPT, way, place.folder, *arguments, workers=SIZE, sizes=sizes,
        checkpoint=await place.claim(),
    )  # fmt: skip


async def cost(place: Place, change: str) -> Cost:
    """Make a change, and measure the time until all ranks train again."""
    pods, old = await place.pods(), pids_of(place.trace())
    began = time.time()
    if change == "suspend":
        await place.patch_job({"suspend": True})

        async def all_are_gone() -> bool:
            return not any(place.processes(pod) for pod in pods)

        await place.until(all_are_gone)
        over = time.time()
    else:
        size = CHANGES[change]
        await place.patch_job({"workers": {"replicas": size}})
        lines = await place.until_trace(lambda lines: trains(size, but=old)(steps(lines)))
        new = [line for line in steps(lines) if line["size"] == size and line["pid"] not in old]
        over = max({line["rank"]: line["time"] for line in reversed(new)}.values())
    saved = [x["seconds"] for x in place.trace() if "saved" in x and x["time"] > began]
    save_seconds = max(saved, default=0.0)
    last = max(line["time"] for line in steps(place.trace()) if line["pid"] in old)
    return Cost(over - began - save_seconds, save_seconds, over - last - save_seconds)


def new_folder(scratch: Path, name: str) -> Path:
    folder = scratch / name
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
