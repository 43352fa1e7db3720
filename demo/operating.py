"""The operator of the demo: a process with its own kubeconfig and the rights in its manifests."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import reaper
from devcluster.addresses import free_ports
from devcluster.client import Client, at
from devcluster.cluster import Cluster

HOME = "spotrun-system"
_LEASE = "spotrun"
_LEADING_SECONDS = 60.0
_GOODBYE_SECONDS = 5.0
_LAST_LINES = 15


class OperatorError(Exception):
    """The operator does not work; the message contains what is known."""


@dataclass(frozen=True)
class Operator:
    """One replica."""

    process: asyncio.subprocess.Process
    log: Path

    def check(self) -> None:
        """Raise OperatorError if it has ended."""
        if self.process.returncode is not None:
            raise OperatorError(
                f"the operator has ended with exit code {self.process.returncode}. The end of its "
                f"log:\n{self.last_lines()}"
            )

    def last_lines(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])


@asynccontextmanager
async def operating(cluster: Cluster, client: Client) -> AsyncIterator[Operator]:
    """Start the operator and wait until it is the leader; it ends with the block.

    It has the cluster's marker as well, so that the cluster's watchdog ends it in any case.
    """
    kubeconfig = await _own_kubeconfig(cluster)
    operator = await _start(cluster, kubeconfig)
    try:
        await _until_leading(operator, client)
        yield operator
    finally:
        await _end(operator.process)


async def _start(cluster: Cluster, kubeconfig: Path) -> Operator:
    host, log = cluster.block.pod_address(), cluster.directory / "operator.log"
    port, metrics, liveness = free_ports(host, 3)
    agents = f"{host}:{port}"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "spotrun", "operator", "--kubeconfig", str(kubeconfig)),
            *("--address", agents, "--advertise", agents),
            *("--agents-host", host, "--agents-port", str(port)),
            *("--metrics-host", host, "--metrics-port", str(metrics)),
            *("--liveness-port", str(liveness)),
            env={"PATH": os.environ["PATH"], reaper.MARKER: cluster.marker},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # only the demo handles Ctrl-C
        )
    return Operator(process, log)


async def _own_kubeconfig(cluster: Cluster) -> Path:
    """Write a kubeconfig with the rights of its service account, as its pod would have."""
    ran = await asyncio.to_thread(cluster.kubectl, "create", "token", "spotrun", "-n", HOME)
    config: dict[str, Any] = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": ran.stdout.strip()}
    file = cluster.directory / "operator.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(json.dumps(config))
    return file


async def _until_leading(operator: Operator, client: Client) -> None:
    """Wait until the Lease has a holder; raises OperatorError if the process ends before."""
    leases = at("leases", HOME, group="coordination.k8s.io/v1")
    leading = asyncio.ensure_future(
        client.until(leases, _LEASE, _is_held, timeout_seconds=_LEADING_SECONDS)
    )
    ending = asyncio.ensure_future(operator.process.wait())
    try:
        await asyncio.wait({leading, ending}, return_when=asyncio.FIRST_COMPLETED)
        operator.check()
        await leading
    except TimeoutError:
        raise OperatorError(
            f"the operator is not the leader after {_LEADING_SECONDS:.0f} s. The end of its log:\n"
            f"{operator.last_lines()}"
        ) from None
    finally:
        leading.cancel()
        ending.cancel()


def _is_held(lease: dict[str, Any] | None) -> bool:
    return lease is not None and bool(lease["spec"].get("holderIdentity"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process with SIGTERM, else by force."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
