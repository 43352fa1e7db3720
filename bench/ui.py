"""The response time of the command line, and of the page, in a cluster of 500 jobs.

Each verb is a separate process, as started by a shell: the figure includes the start of Python,
imports, the kubeconfig, TLS, the requests and the screen. The API server is a real one; the
statuses are as large as those of jobs that have trained for hours.

`cli_p95_seconds` is of the slowest verb; `cli_start_seconds` is the time of help, which needs no
cluster. bench/ui_page.py has the figures of the page: `ui_update_p95_seconds`,
`ui_first_paint_seconds` and `ui_bundle_kb`.

Run as `.venv/bin/python bench/ui.py [--quick]`; JSON lines.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import ui_page
from bench.operator_bench import percentile, say
from devcluster.client import Client, at
from devcluster.cluster import Cluster
from tests.support.cluster.operator_world import GROUP, install_crds

PLUGIN = Path(sys.executable).parent / "kubectl-tjob"
COMPLETION = PLUGIN.with_name("kubectl_complete-tjob")
NAMESPACES = ("team-a", "team-b", "team-c", "team-d", "team-e")
WRITERS = 16
NAME = "job-0000"
HERE = ("-n", NAMESPACES[0])
VERBS: dict[str, tuple[Path, tuple[str, ...]]] = {
    "list": (PLUGIN, ("list", *HERE)),
    "list_all": (PLUGIN, ("list", "-A", "--sort", "dollars")),
    "show": (PLUGIN, ("show", NAME, *HERE)),
    "why": (PLUGIN, ("why", NAME, *HERE)),
    "cost": (PLUGIN, ("cost", NAME, *HERE)),
    "cost_all": (PLUGIN, ("cost", "-A", "--by", "team")),
    "completion": (COMPLETION, ("show", *HERE, "job-00")),
}


def main() -> None:
    """Create the jobs, run each verb, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 jobs, each verb twice")
    quick = parser.parse_args().quick
    jobs, times = (20, 2) if quick else (500, 20)
    with Cluster("current") as cluster:
        install_crds(cluster)
        asyncio.run(_make_jobs(cluster, jobs))
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        say("cli_start_seconds", _timed(PLUGIN, ("--help",), environment, times), "s")
        slowest = 0.0
        for name, (program, words) in VERBS.items():
            taken = _timed(program, words, environment, times)
            say(f"cli_{name}_seconds", taken, "s", jobs=jobs)
            slowest = max(slowest, percentile(taken, 95))
        say("cli_p95_seconds", slowest, "s", jobs=jobs, repeats=times)
        asyncio.run(ui_page.measure(cluster, NAME, NAMESPACES[0], jobs, times))


def _timed(
    program: Path, words: tuple[str, ...], environment: dict[str, str], times: int
) -> list[float]:
    taken = []
    for _ in range(times):
        began = time.perf_counter()  # no timeout: with one, Python checks only every 50 ms
        subprocess.run([program, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return taken


async def _make_jobs(cluster: Cluster, number: int) -> None:
    limit = asyncio.Semaphore(WRITERS)
    async with Client(cluster.admin) as kube:

        async def one(index: int) -> None:
            namespace = NAMESPACES[index % len(NAMESPACES)]
            path = at("trainingjobs", namespace, group=GROUP)
            name = f"job-{index:04}"
            async with limit:
                await kube.create(path, _job(name, f"team-{index % 7}"))
                await kube.patch(f"{path}/{name}/status", {"status": _status(index)})

        for name in NAMESPACES:
            await kube.create(at("namespaces"), {"metadata": {"name": name}})
        await asyncio.gather(*map(one, range(number)))


def _job(name: str, team: str) -> dict[str, Any]:
    container = {"name": "trainer", "image": "example/train:1", "args": ["train.py"]}
    return {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": {"team": team}},
        "spec": {
            "workers": {"min": 2, "max": 16, "template": {"spec": {"containers": [container]}}},
            "budget": {"maxCostUsd": "500", "onExceeded": "Warn"},
        },
    }


def _status(index: int) -> dict[str, Any]:
    """Return the status of a job of 16 workers that has trained for hours."""
    at_time = "2026-03-01T08:00:00Z"
    why = "the GPU is busy 97 % of a step, and 8 workers more made a step 1.8 times as fast"
    decision = {"time": at_time, "what": "Grow", "why": why, "numbers": {"efficiency": "0.9"}}
    kinds = ("Running", "CapacityAvailable", "WithinBudget", "PricingComplete", "OnSchedule")
    condition = {"status": "True", "reason": "Training", "message": why, "observedGeneration": 1}
    price = {"usdPerHour": "1.2", "since": at_time, "isSpot": True, "pool": "spot-a10g"}
    return {
        "phase": "Running" if index % 5 else "Recovering",
        "reason": "Training",
        "message": "16 workers train",
        "observedGeneration": 1,
        "workers": {"summary": "16/16", "running": 16, "spot": 14, "onDemand": 2},
        "world": {
            "number": 7,
            "members": "0-15",
            "active": True,
            "entry": "Boundary",
            "store": "10.0.0.1:29400",
            "formedAt": at_time,
        },
        "progress": {"step": 4000 + index, "totalSteps": 10_000, "percent": "40%"},
        "pace": {"stepSeconds": "0.31", "workers": 16},
        "cost": {
            "usd": f"{index}.25",
            "usdPerHour": "18",
            "savedUsd": "40.5",
            "spotUsd": "1",
            "onDemandUsd": f"{index + 40}",
            "goodput": "93%",
            "pricing": "Complete",
        },
        "decisions": [decision] * 10,
        "conditions": [{"type": one, "lastTransitionTime": at_time, **condition} for one in kinds],
        "accumulators": {"rates": [{"workers": str(one), **price} for one in range(16)]},
        "nextWorkerId": 16,
    }


if __name__ == "__main__":
    main()
