"""The verbs that look, typed at a real cluster with a job whose agents are played."""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from devcluster.cluster import Cluster
from tests.integration.money.helpers import add_node, workers
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times

PLUGIN = Path(sys.executable).parent / "kubectl-tjob"


@dataclass(frozen=True)
class Typed:
    """The answer to a command line."""

    code: int | None
    out: str
    err: str


async def typed(cluster: Cluster, *words: str) -> Typed:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        PLUGIN,
        *words,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert "Traceback" not in err.decode()
    return Typed(process.returncode, out.decode(), err.decode())


async def test_a_job_that_trains_is_listed_and_shown(world: World) -> None:
    await add_node(world, "a", "36")
    world.play().step_times = lambda _: Times(0.05)
    await world.create_job(workers=workers(2))
    here = ("-n", world.namespace)
    async with world.operator():
        await world.until_job(lambda s: "step" in s.get("progress", {}))
        await world.until_job(lambda s: "usd" in s.get("cost", {}))
        listed = await typed(world.cluster, "list", *here)
        shown = await typed(world.cluster, "show", "job", *here)
        for_programs = await typed(world.cluster, "list", *here, "-o", "json")
        misspelt = await typed(world.cluster, "show", "jbo", *here)
    assert listed.code == shown.code == 0
    assert re.search(r"^job +Running +2/2 .* 18\.00 ", listed.out, re.MULTILINE)
    assert "2 workers train." in shown.out
    assert "world 1: 2 workers, entered by Restart" in shown.out
    assert re.search(r"^ +0 +0 +Running +9\.00 +a .* job-\w+-0$", shown.out, re.MULTILINE)
    [row] = json.loads(for_programs.out)
    assert (row["name"], row["phase"], row["usdPerHour"]) == ("job", "Running", "18")
    assert misspelt.code == 4
    assert "Did you mean job?" in misspelt.err
