"""The operator of an earlier commit, as a process that takes the place of today's replica."""

import asyncio
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from devcluster.addresses import free_ports
from devcluster.client import at
from tests.campaign.ground import TERMS, Ground
from tests.support.cluster.operator_world import ROOT, suppress_missing

EARLIER = "1267f614"
"""The commit of 2026-11-24, some 600 commits ago: statuses have had the names of today since."""
_LEASES = "coordination.k8s.io/v1"
_END_SECONDS = 15.0


@asynccontextmanager
async def earlier_operator(ground: Ground) -> AsyncIterator[None]:
    """Have the earlier operator lead in place of today's while the block lasts."""
    (deployment, *_) = ground.deployments
    deployment.may_start.clear()
    deployment.kill()
    path = at("leases", ground.world.home, group=_LEASES)
    with suppress_missing():  # who is next need not wait until it has run out
        await ground.world.kube.delete(f"{path}/spotrun")
    with tempfile.TemporaryDirectory() as folder:
        process = await _started(ground, Path(folder))
        try:
            await ground.world.until(lambda: _leads(ground, process))
            yield
        finally:
            await _ended(process)
            deployment.may_start.set()


async def _started(ground: Ground, folder: Path) -> asyncio.subprocess.Process:
    world = ground.world
    config = {
        "clusters": [{"name": "c", "cluster": {"server": ground.proxy.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    host, (metrics, liveness) = world.host, free_ports(world.host, 2)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "spotrun", "operator", "--kubeconfig", str(kubeconfig)),
        *("--namespace", world.home, "--watch-namespace", world.namespace),
        *("--advertise", f"{host}:{world.port}", "--address", f"{host}:{world.port}"),
        *("--agents-host", host, "--agents-port", str(world.port)),
        *("--metrics-host", host, "--metrics-port", str(metrics)),
        *("--liveness-port", str(liveness), "--lease-seconds", str(round(TERMS.lease_seconds))),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(source())},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def _leads(ground: Ground, process: asyncio.subprocess.Process) -> bool:
    """Whether the earlier operator has the Lease."""
    if process.returncode is not None:
        raise RuntimeError(f"the operator of {EARLIER} ended by itself: {process.returncode}")
    leases = await ground.world.kube.list(at("leases", ground.world.home, group=_LEASES))
    return any(one["spec"].get("holderIdentity") for one in leases)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class NoHistoryError(Exception):
    """The repository lacks the commit of the earlier operator."""


@cache
def source() -> Path:
    """Return the folder of the operator's source as it was, taken from the history."""
    asked = ["git", "archive", EARLIER, "operator"]
    packed = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise NoHistoryError(f"{' '.join(asked)} failed: fetch the whole history of the repository")
    folder = ROOT / ".campaign" / f"operator-of-{EARLIER}"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "operator"
