"""The cost of `keep` for a plain DDP loop, and the cost of a power cut for a loop with it.

The script is `tests/scripts/kept_loop.py` on process nodes under the operator's own code. The nodes
of the ranks lose their power in turn, some time after the start, when spare processes are ready.

    keep_step_ms            time added to a step that copies a state of this many MB
    script_steps_lost       steps that the survivor of a power cut had done and that it repeats,
                            alone or after the replacement has joined it
    script_restart_seconds  from the cut to the first step of all ranks of the next world: that of
                            the survivor alone, as for the scripts of bench/scripts.py
    script_whole_seconds    from the cut until the replacement trains as well: this includes the
                            start of its pod, and its import of PyTorch

Run as `.venv/bin/python bench/scripts_keep.py [--quick] [--repeats 3] [--only cost]`.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from bench.operator_bench import say
from bench.scripts import AHEAD_SECONDS
from bench.scripts_events import lasts
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from spotrun_trainer.kept.handle import Kept
from spotrun_trainer.kept.image import Writer
from spotrun_trainer.kept.node_copy import NodeCopy
from spotrun_trainer.kept.position import Position
from spotrun_trainer.process.node_memory import offer_memory, offered_memory
from spotrun_trainer.state.tracked import Tracked
from tests.integration.trainer.helpers import FOR_LONG, open_telling_place
from tests.integration.trainer.traces import Trace, pids_of
from tests.support.cluster.operator_world import install_crds

STATE_MB = (10, 100)
LAYERS = 8
WARM_UP = 3
"""The first copies, which are slower because they use the memory for the first time."""


class Cut(NamedTuple):
    """The cost of a power cut."""

    steps_lost: int
    restart_seconds: float
    whole_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few copies, and one power cut")
    parser.add_argument("--repeats", type=how_many, default=3)
    parser.add_argument("--only", default="", choices=["", "cost", "cuts"])
    arguments = parser.parse_args()
    if arguments.only in {"", "cost"}:
        for size in STATE_MB:
            costs = step_costs(size, copies=3 if arguments.quick else 30)
            say("keep_step_ms", [1000 * cost for cost in costs], "ms", state_mb=size)
    if arguments.only in {"", "cuts"}:
        repeats, ahead_seconds = (1, 0.0) if arguments.quick else (arguments.repeats, AHEAD_SECONDS)
        asyncio.run(measure_cuts(repeats, ahead_seconds))


def step_costs(state_mb: int, copies: int) -> list[float]:
    """Return the duration of each call that copies a model with AdamW's state."""
    torch.set_num_threads(1)
    width = round((state_mb * 1e6 / 4 / 3 / LAYERS) ** 0.5)  # weights, and two moments of each
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, width)).sum().backward()
    optimizer.step()
    tracked = Tracked()
    tracked.add("model", model)
    tracked.add("optimizer", optimizer)
    environment: dict[str, str] = {}
    offer_memory(environment)
    copy = NodeCopy(offered_memory(environment))
    kept = Kept(Writer(tracked), copy, step=0, position=Position(), every=1, seed=None)
    costs = [timed(kept) for _ in range(WARM_UP + copies)]
    assert copy.is_there, "there is enough room"
    return costs[WARM_UP:]


def timed(kept: Kept) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    kept.save()
    return time.perf_counter() - began


async def measure_cuts(repeats: int, ahead_seconds: float) -> None:
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        cuts = []
        for repeat in range(repeats):
            folder = Path(scratch) / str(repeat)
            folder.mkdir()
            cuts.append(await power_cut(cluster, folder, repeat % 2, ahead_seconds))
    say("script_steps_lost", max(cut.steps_lost for cut in cuts), "steps", cuts=repeats)
    say("script_restart_seconds", [cut.restart_seconds for cut in cuts], "s")
    say("script_whole_seconds", [cut.whole_seconds for cut in cuts], "s")


async def power_cut(cluster: Cluster, folder: Path, rank: int, ahead_seconds: float) -> Cut:
    """Cut the power of a rank's node; a node for the replacement already exists."""
    async with open_telling_place(cluster, folder) as place:
        await place.add_nodes("a", "b", "c")
        await place.start("kept_loop.py", folder, *FOR_LONG, sizes={"min": 1})
        async with place.operator():
            await place.until_trains(2)
            await place.until_trace(lambda lines: lasts(lines, ahead_seconds))
            before, at = place.trace(), time.time()
            await place.machine(await place.member(rank)).vanish(delete_node=True)
            whole = await place.until_trains(2, after=before)
    lines = place.trace()
    old = pids_of(before)
    survivors = {line["pid"] for line in before if line["rank"] != rank}
    done = max(line["step"] for line in lines if line["pid"] in survivors)
    alone = [line for line in lines if line["pid"] not in old and line["size"] == 1]
    lost = made_again(done, alone)
    if alone:
        done = max(line["step"] for line in alone)
    return Cut(
        lost + made_again(done, whole), first_step(alone or whole) - at, first_step(whole) - at
    )


def made_again(done: int, after: Trace) -> int:
    """Return how many of the completed steps are repeated; no step counts as one."""
    return max(done + 1 - min((line["step"] for line in after), default=done + 1), 0)


def first_step(lines: Trace) -> float:
    """Return when all ranks had made a step."""
    return max({line["rank"]: float(line["time"]) for line in reversed(lines)}.values())


if __name__ == "__main__":
    main()
