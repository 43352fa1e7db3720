"""Whether a training that changes nodes and sizes has the same result as an undisturbed one.

A job of up to four workers loses machines, gets new ones, grows and shrinks at random, under the
operator's own code on process nodes of devcluster. It continues in its processes while one of them
is left, and from a checkpoint otherwise.
`samples_wrong` counts the samples that a step used too often or not at all, compared with an
undisturbed training; `hash_equal` is 1 if the final weights are the same, bit by bit.

Run as `.venv/bin/python bench/determinism.py [--quick] [--changes 30] [--only deterministic]`.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bench.operator_bench import ROOT, say
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import Place, open_telling_place
from tests.integration.trainer.traces import Trace
from tests.support.cluster.operator_world import install_crds
from tests.support.jobs.statuses import failures_of

TRAINING = ROOT / "bench" / "determinism_training.py"
MOST_WORKERS = 4
PAUSE_SECONDS = 0.05
ALONE_SECONDS = 300
MODES = {"deterministic": (), "plain": ("--plain",)}  # arguments of the training


@dataclass(frozen=True)
class Result:
    """The result of a training."""

    hash: str
    lines: Trace

    @property
    def losses(self) -> dict[int, float]:
        """The last reported loss of each step."""
        return {line["step"]: line["loss"] for line in sorted(self.lines, key=_moment)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one change")
    parser.add_argument("--changes", type=how_many, default=30)
    parser.add_argument("--only", choices=MODES, help="one mode")
    arguments = parser.parse_args()
    changes = 1 if arguments.quick else arguments.changes
    modes = [arguments.only] if arguments.only else list(MODES)
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        asyncio.run(measure(cluster, Path(scratch), modes, changes))


async def measure(cluster: Cluster, scratch: Path, modes: Iterable[str], changes: int) -> None:
    for mode in modes:
        flags = MODES[mode]
        moved = await moved_about(cluster, scratch / f"{mode}-moved", changes, *flags)
        steps = max(moved.losses)
        left_alone = await asyncio.to_thread(alone, scratch / f"{mode}-alone", steps, *flags)
        wrong = samples_wrong(left_alone.lines, moved.lines)
        say("samples_wrong", wrong, "samples", changes=changes, steps=steps, mode=mode)
        if mode == "deterministic":
            say("hash_equal", int(left_alone.hash == moved.hash), "1 or 0", changes=changes)
        else:
            before, after = left_alone.losses, moved.losses
            apart = max(abs(after[step] / before[step] - 1) for step in before)
            say("loss_apart_relative", 1e6 * apart, "1e-6", changes=changes)


def alone(folder: Path, steps: int, *flags: str) -> Result:
    """Train in one process, undisturbed."""
    folder.mkdir()
    command = [sys.executable, str(TRAINING), str(folder), f"--steps={steps}", *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, timeout=ALONE_SECONDS, stdout=sys.stderr)
    return _result(folder)


async def moved_about(cluster: Cluster, folder: Path, changes: int, *flags: str) -> Result:
    """Run a job with this number of changes, which then ends."""
    await asyncio.to_thread(folder.mkdir)
    chosen = random.Random(1)  # noqa: S311 - the same changes in each run
    async with open_telling_place(cluster, folder) as place:
        await place.add_nodes(*(f"n{number}" for number in range(MOST_WORKERS)))
        arguments = (folder, f"--pause={PAUSE_SECONDS}", *flags)
        sizes = {"min": 1, "max": MOST_WORKERS}
        await place.start(TRAINING, *arguments, workers=2, sizes=sizes)
        async with place.operator():
            await until_trains(place, 2)
            for number in range(changes):
                await change(place, chosen, f"m{number}")
            await asyncio.to_thread((folder / "enough").touch)
            await place.until_phase("Succeeded")
            await place.until_all_ended()
        status = (await place.job())["status"]
        if failures_of(status):
            raise RuntimeError(f"the training itself has failed: {status['restarts']}")
    return _result(folder)


async def change(place: Place, chosen: random.Random, spare: str) -> None:
    """Lose a machine and get another, or change the size; return when the new world trains."""
    size = (await place.job())["spec"]["workers"]["replicas"]
    if chosen.random() < 0.5:
        running = [pod for pod in await place.pods() if pod["status"].get("phase") == "Running"]
        lost = chosen.choice(running)
        await place.machine(lost).vanish(delete_node=True)
        await place.add_nodes(spare)
    else:
        size = chosen.choice([one for one in range(1, MOST_WORKERS + 1) if one != size])
        await place.patch_job({"workers": {"replicas": size}})
    await until_trains(place, size)


async def until_trains(place: Place, size: int) -> None:
    """Wait until all ranks of a world of that size make steps."""
    since = time.time()

    def holds(lines: Trace) -> bool:
        return len({x["rank"] for x in lines if x["size"] == size and x["time"] > since}) == size

    await place.until_trace(holds)


def samples_wrong(expected: Iterable[dict[str, Any]], found: Trace) -> int:
    """Count the samples that were used too often, not at all, or in another step.

    A step may be repeated from a checkpoint in another world, but then with the same samples.
    """
    right = {line["step"]: set(line["seen"]) for line in expected}
    seen: dict[int, set[int]] = {step: set() for step in right}
    attempts: dict[int, list[dict[int, list[int]]]] = {step: [{}] for step in right}
    for line in sorted(found, key=_moment):
        seen[line["step"]].update(line["seen"])
        ranks = attempts[line["step"]][-1]
        if line["rank"] in ranks:
            attempts[line["step"]].append(ranks := {})
        ranks[line["rank"]] = line["seen"]
    dealt = [[*chain(*ranks.values())] for each in attempts.values() for ranks in each]
    twice = sum(len(each) - len(set(each)) for each in dealt)
    return twice + sum(len(right[step] ^ seen[step]) for step in right)


def _result(folder: Path) -> Result:
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    return Result((folder / "hash").read_text(), lines)


def _moment(line: dict[str, Any]) -> float:
    return float(line["time"])


if __name__ == "__main__":
    main()
