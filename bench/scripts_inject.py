"""The time that adding the package (workers.inject) adds to a worker's start.

A job of one worker is started repeatedly on a process node, in turns with a Python that has
spotrun, and in a stock image (tests/support/processes/stock_image.py) to which it is added.

    inject_seconds   from creating the job to its script's first step: the median with injection,
                     less the median without; never less than 0

It includes the work of both containers: copying, checking the sums, and compiling files that Python
finds uncompiled. It does not include the pull of the operator's image and the start of a container
by a container runtime, because process nodes have neither.

Run as `.venv/bin/python bench/scripts_inject.py [--quick] [--repeats 5]`.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from bench.operator_bench import say
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import FOR_LONG, Place, open_telling_place
from tests.support.cluster.operator_world import install_crds
from tests.support.processes.stock_image import stock_image

WAYS = ("without", "with")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="each way once")
    parser.add_argument("--repeats", type=how_many, default=5)
    arguments = parser.parse_args()
    repeats = 1 if arguments.quick else arguments.repeats
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        found = asyncio.run(starts(cluster, Path(scratch), repeats))
    medians = {way: statistics.median(seconds) for way, seconds in found.items()}
    say(
        "inject_seconds",
        max(medians["with"] - medians["without"], 0.0),
        "s",
        repeats=repeats,
        **{f"{way}_seconds": round(median, 2) for way, median in medians.items()},
    )


async def starts(cluster: Cluster, scratch: Path, repeats: int) -> dict[str, list[float]]:
    """Return the durations of several starts in each way."""
    path = stock_image(scratch / "image")
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(repeats):
        for way in WAYS:
            folder = scratch / f"{way}-{number}"
            folder.mkdir()
            async with open_telling_place(cluster, folder) as place:
                await place.add_nodes("a")
                found[way].append(await start_seconds(place, way, path))
    return found


async def start_seconds(place: Place, way: str, path: str) -> float:
    injected = way == "with"
    settings = {"inject_image": "operator"} if injected else {}
    async with place.operator(**settings):
        began = time.time()
        arguments = ("--trace", place.folder / "trace.jsonl", *FOR_LONG)
        await place.start(
            "plain_loop.py", *arguments, workers=1, env={"PATH": path} if injected else {}
        )
        lines = await place.until_trace(bool)
    return float(lines[0]["time"]) - began


if __name__ == "__main__":
    main()
