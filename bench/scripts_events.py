"""A lost node, and a node with a notice: the cost for trainings with frameworks.

See bench/scripts.py, which prints it.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.scripts_frameworks import LONG, WAYS
from devcluster.cluster import Cluster
from devcluster.notices import Dialect
from tests.integration.trainer.helpers import Place, open_telling_place
from tests.integration.trainer.traces import Trace, trains
from tests.support.cluster.operator_world import ROOT
from tests.support.jobs.statuses import failures_of

FRAMEWORKS = ROOT / "bench" / "scripts_frameworks.py"
PLAIN = ROOT / "bench" / "scripts_training.py"
TORCHTITAN = ROOT / "tests" / "scripts" / "torchtitan_on_cpus.py"
TORCHTITANS = ROOT / ".torchtitan"  # `make test-torchtitan` fetches it
SCRIPTS = (*WAYS, "ddp")
ASKED_FOR = "torchtitan"
"""The script that is measured only if it is named: it always has its adapter, and cannot continue
at another size, so a loss lasts until a replacement trains as well."""
NOTICE_SECONDS = 60.0


@dataclass(frozen=True)
class Found:
    """The cost of one event."""

    seconds: float  # from the event to the first step of all ranks after it
    steps_lost: int  # steps done before it, and repeated after it
    failures: int


async def lost(
    cluster: Cluster, folder: Path, script: str, *, adapter: bool, ahead_seconds: float
) -> Found:
    """Cut a node's power, some time after the start, when spare processes are ready."""
    async with open_telling_place(cluster, folder) as place:
        size = 2 if script == ASKED_FOR else 1
        await start(place, script, adapter=adapter, nodes=1 + size, least=size)
        async with place.operator():
            await place.until_trace(lambda lines: trains(2)(steps(lines)))
            await place.until_trace(lambda lines: lasts(lines, ahead_seconds))
            before, at = place.trace(), time.time()
            await place.machine(await place.member(1)).vanish(delete_node=True)
            return await found(place, before, at, size=size)


async def noticed(cluster: Cluster, folder: Path, script: str, *, adapter: bool) -> Found:
    """Give a node a notice; its replacement is ready long before the node's end."""
    async with open_telling_place(cluster, folder) as place:
        await start(place, script, adapter=adapter, nodes=3, least=2)
        async with place.operator():
            await place.until_trace(lambda lines: trains(2)(steps(lines)))
            machine = place.machine(await place.member(1))
            before, at = place.trace(), time.time()
            await machine.notice(Dialect.KARPENTER_SPOT, NOTICE_SECONDS)
            return await found(place, before, at, size=2)


async def start(place: Place, script: str, *, adapter: bool, nodes: int, least: int) -> None:
    await place.add_nodes(*(f"n{number}" for number in range(nodes)))
    path, arguments = FRAMEWORKS, [script, place.folder, *(["--adapter"] if adapter else [])]
    if script == "ddp":
        path, arguments = PLAIN, ["told", place.folder]
    env = {}
    if script == ASKED_FOR:
        path, arguments = TORCHTITAN, [f"--steps={LONG}", f"--trace={place.folder}"]
        env = {"PYTHONPATH": str(TORCHTITANS)}
    await place.start(
        path, *arguments, workers=2, sizes={"min": least}, checkpoint=await place.claim(), env=env
    )


async def found(place: Place, before: Trace, at: float, *, size: int) -> Found:
    """Wait until all ranks train again in new processes, and compare."""
    old = frozenset(line["pid"] for line in before)
    lines = steps(await place.until_trace(lambda lines: trains(size, but=old)(steps(lines))))
    new = [line for line in lines if line["pid"] not in old]
    over = max({line["rank"]: line["time"] for line in reversed(new)}.values())
    last = max(line["step"] for line in lines if line["pid"] in old)
    first = min(line["step"] for line in new)
    failures = failures_of((await place.job())["status"])
    return Found(over - at, max(last + 1 - first, 0), failures)


def lasts(lines: Trace, seconds: float) -> bool:
    """Whether the newest process has made steps for this time."""
    made = steps(lines)
    times = [line["time"] for line in made if line["pid"] == made[-1]["pid"]]
    return bool(times) and times[-1] - times[0] >= seconds


def steps(lines: Trace) -> Trace:
    """Return the lines about steps."""
    return [line for line in lines if "step" in line]
