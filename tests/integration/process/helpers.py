"""Replicas of the operator as processes, as the ServiceAccount that manifests/ name."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from devcluster.addresses import free_ports
from devcluster.client import ApiError, at
from devcluster.cluster import Cluster
from tests.support.cluster.operator_world import ROOT, World

HOME = "spotrun-system"
LEASE = at("leases", HOME, "spotrun", group="coordination.k8s.io/v1")
LEASE_SECONDS = 3
IN_ORDER_SECONDS = 15
"""Half of what Kubernetes gives a pod to end; it takes about one."""


def grant_rights(cluster: Cluster, file: str, *, namespace: str | None = None) -> None:
    """Apply the shipped rights; those for one namespace are written for one called ml."""
    manifest = (ROOT / "manifests" / file).read_text()
    if namespace is not None:
        parts = [part for part in yaml.safe_load_all(manifest) if part]
        for part in parts:
            if part["metadata"].get("namespace") == "ml":
                part["metadata"]["namespace"] = namespace
        manifest = yaml.safe_dump_all(parts)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=manifest)


def take_rights(cluster: Cluster) -> None:
    """Leave the account without any rights, whatever another test gave it."""
    for kind in ("clusterrolebinding", "clusterrole"):
        cluster.kubectl("delete", kind, "spotrun", "spotrun-cluster", "--ignore-not-found")


def token(cluster: Cluster) -> str:
    """Return the token that the operator's pod would be given."""
    return cluster.kubectl("create", "token", "spotrun", "-n", HOME).stdout.strip()


def write_kubeconfig(cluster: Cluster, token: str, file: Path, server: str | None = None) -> Path:
    """Access to the cluster as whoever the token says."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    if server is not None:
        config["clusters"][0]["cluster"]["server"] = server
    file.write_text(yaml.safe_dump(config))
    return file


@dataclass(frozen=True)
class Listening:
    """The addresses at which a replica serves."""

    host: str
    agents_port: int
    metrics_port: int
    liveness_port: int

    @property
    def agents(self) -> str:
        """The address that agents come to."""
        return f"{self.host}:{self.agents_port}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The same for the command line."""
        return (
            *("--address", self.agents, "--agents-host", self.host, "--metrics-host", self.host),
            *("--agents-port", str(self.agents_port), "--metrics-port", str(self.metrics_port)),
            *("--liveness-port", str(self.liveness_port)),
        )


def listening(host: str) -> Listening:
    """Choose ports of an address that are free."""
    return Listening(host, *free_ports(host, 3))


@dataclass
class Replica:
    """One process."""

    process: asyncio.subprocess.Process
    at: Listening
    log: Path
    started_at: float

    @property
    def text(self) -> str:
        """All that it has logged."""
        return self.log.read_text()

    def lines(self, **wanted: object) -> list[dict[str, Any]]:
        """The lines of its JSON log with these fields."""
        complete = self.text.rpartition("\n")[0]
        lines = [json.loads(line) for line in complete.splitlines()]
        return [line for line in lines if wanted.items() <= line.items()]

    async def until_logged(self, words: str, *, seconds: float = 30) -> dict[str, Any]:
        """Wait for a line with these words."""
        line: dict[str, Any] = await self._until(
            lambda: next((line for line in self.lines() if words in line["message"]), None),
            f"{words!r} in the log",
            seconds,
        )
        return line

    async def until_leading(self) -> None:
        await self.until_logged("this replica is the leader; ")

    async def ended(self, *, seconds: float = 30) -> int:
        """Wait for its end; returns the exit code."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def stop(self) -> float:
        """End it in order; returns after how many seconds it had ended."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert await self.ended() == 0, self.text
        return time.monotonic() - began

    async def get(self, port: int, path: str) -> tuple[int, str]:
        """Ask one of its plain servers."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.at.host}:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def metrics(self) -> dict[str, float]:
        _, text = await self.get(self.at.metrics_port, "/metrics")
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    @property
    def resident_mb(self) -> float:
        """Return the process's resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    async def _until(self, look: Callable[[], Any], what: str, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while not (found := look()):
            assert self.process.returncode is None, f"it ended before {what}:\n{self.text}"
            assert time.monotonic() < end, f"not within {seconds} s: {what}\n{self.text}"
            await asyncio.sleep(0.02)
        return found


@dataclass
class Launcher:
    """Starts replicas for a world and its agents; ends them with its test."""

    world: World
    kubeconfig: Path
    folder: Path
    replicas: list[Replica]

    async def start(
        self,
        *flags: str,
        watch: str | None = None,
        where: Listening | None = None,
        **environment: str,
    ) -> Replica:
        """Start one more; `watch` is the namespace that it is to serve."""
        where = where or self.somewhere()
        scope = [] if watch is None else ["--watch-namespace", watch]
        own = ("--kubeconfig", str(self.kubeconfig), *where.flags)
        lease = ("--lease-seconds", str(LEASE_SECONDS))
        command = ("-m", "spotrun", "operator", *own, *lease, "--log-format", "json")
        return await self._launch(where, (*command, *scope, *flags), environment)

    async def start_kopf(
        self,
        *,
        where: Listening | None = None,
        namespaces: tuple[str, ...] = ("--all-namespaces",),
        **environment: str,
    ) -> Replica:
        """Start one more by kopf's own command; what it is told is in its environment."""
        where = where or self.somewhere()
        flags = iter(where.flags)
        own = {flag.strip("-").replace("-", "_").upper(): next(flags) for flag in flags}
        own |= {"KUBECONFIG": str(self.kubeconfig), "LEASE_SECONDS": str(LEASE_SECONDS)}
        command = ("-m", "kopf", "run", "--module", "spotrun.runtime.kopf_run", "--standalone")
        told = {f"SPOTRUN_{name}": value for name, value in own.items()} | environment
        return await self._launch(where, (*command, "--log-format", "json", *namespaces), told)

    def somewhere(self) -> Listening:
        """Choose where the next one serves."""
        return listening(self.world.cluster.block.pod_address())

    async def _launch(
        self, where: Listening, command: tuple[str, ...], environment: dict[str, str]
    ) -> Replica:
        log = self.folder / f"replica-{len(self.replicas)}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *command),
                env={"PATH": os.environ["PATH"], **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        replica = Replica(process, where, log, time.monotonic())
        self.replicas.append(replica)
        return replica


@asynccontextmanager
async def launching(world: World, kubeconfig: Path, folder: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(world, kubeconfig, folder, [])
    try:
        yield launcher
    finally:
        for replica in launcher.replicas:
            if replica.process.returncode is None:
                replica.process.kill()
                await replica.process.wait()
        # The next test need not wait for a dead leader's lease to end.
        with suppress(ApiError):
            await world.kube.delete(LEASE)
