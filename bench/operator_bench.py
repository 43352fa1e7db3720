"""The common parts of the operator's benches: a cluster with our kinds, processes, and figures.

The operator (`bench/operator_child.py`) and the nodes (`bench/nodes_child.py`) are separate
processes, so that CPU and memory are measured for each alone and none waits for the measuring
process. All of them read CLOCK_MONOTONIC, which is one clock for the whole machine.
"""

import asyncio
import compileall
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp
import yaml

import spotrun
from devcluster.addresses import free_ports
from devcluster.client import Client, Manifest, at
from devcluster.cluster import Cluster
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client as KubeClient
from spotrun.kube.rest.client import Selection
from spotrun.kube.rest.transport import Transport
from spotrun.kube.watch.watch_events import Added, Bookmark, Codec, Deleted, Identity, Modified

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
GROUP = "spotrun.dev/v1alpha1"
NAMESPACE = "default"
JOBS = at("trainingjobs", NAMESPACE, group=GROUP)
PODS = at("pods", NAMESPACE)
RBAC = "rbac.authorization.k8s.io/v1"
KINDS = at("customresourcedefinitions", group="apiextensions.k8s.io/v1")
WRITERS = 16
"""Simultaneous requests of a bench: enough to keep the API server busy with job objects."""
QUIT_SECONDS = 10.0


FIXED_WORK = "of a fixed piece of Python"


def say(metric: str, value: float | Sequence[float], unit: str, **facts: object) -> None:
    """Print one figure: for several values their median, with the minimum and maximum."""
    values = [value] if isinstance(value, int | float) else list(value)
    line: dict[str, object] = {"metric": metric, "value": _short(statistics.median(values))}
    line["unit"] = unit
    if len(values) > 1:
        line |= {"min": _short(min(values)), "max": _short(max(values)), "repeats": len(values)}
    print(json.dumps(line | facts | {"load": round(os.getloadavg()[0], 1)}), flush=True)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value below which this percentage lies; with few values, one of the greatest."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _short(value: float) -> float:
    return round(value, 3) if abs(value) < 100 else round(value, 1)


class Child:
    """A process that prints JSON lines, and answers each line of JSON with one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The ID of its process."""
        return self._process.pid

    async def hear(self, event: str) -> dict[str, Any]:
        """Wait for a line of that event; other lines before it are skipped."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said: dict[str, Any] = json.loads(line)
            if said["event"] == event:
                return said
        raise RuntimeError(f"the process ended before it printed {event!r}: see above")

    async def ask(self, what: str, **more: object) -> dict[str, Any]:
        """Send a request; the answer's event has the name of the request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
        return await self.hear(what)

    async def quit(self) -> None:
        """Let it end in order, by closing its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(QUIT_SECONDS):
            await self._process.wait()

    async def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def child(module: str, *arguments: str) -> AsyncIterator[Child]:
    """Start `python -m bench.<module>`; at the end of the block it is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"bench.{module}", *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    started = Child(process)
    try:
        yield started
    finally:
        await started.kill()


class Rig:
    """One cluster with our kinds, used as `async with Rig(cluster) as rig`."""

    def __init__(self, cluster: Cluster, *flags: str) -> None:
        """Prepare; `flags` are for the operator's process."""
        self.cluster = cluster
        self._flags = flags
        self.kube = Client(cluster.admin)  # not the operator's client, because it measures
        self._host = cluster.block.pod_address()  # of the operator
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        # As in an image. Python would compile at every start if the shell forbids it to write.
        compileall.compile_dir(Path(spotrun.__file__).parent, quiet=1)
        self.cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        enter = self._stack.enter_async_context
        await enter(self.kube)
        for kind in ("trainingjobs", "capacitypools", "tuningjobs", "spendlimits"):
            await self.kube.until(KINDS, f"{kind}.spotrun.dev", _is_established)
        transport = Transport(
            Credentials(from_kubeconfig(self.cluster.kubeconfig)), user_agent="bench"
        )
        self._raw = KubeClient(await enter(transport), field_manager="bench")
        self._operators_kubeconfig = await self._as_service_account()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _as_service_account(self) -> Path:
        """Let the operator use a token, as in a cluster and like the Job controller here.

        A certificate would be verified for each request: 7 % of the API server's time.
        """
        account = at("serviceaccounts", NAMESPACE)
        await self.kube.create(account, {"metadata": {"name": "operator"}})
        subject = {"kind": "ServiceAccount", "name": "operator", "namespace": NAMESPACE}
        role = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": "operator"}, "roleRef": role, "subjects": [subject]}
        await self.kube.create(at("clusterrolebindings", group=RBAC), binding)
        answer = await self.kube.create(
            f"{account}/operator/token", {"spec": {"expirationSeconds": 86_400}}
        )
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        file = self.cluster.directory / "operator.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    @asynccontextmanager
    async def operator(self, *, plays: bool = False) -> AsyncIterator[Child]:
        """Start the operator; it soon becomes the leader. With `plays` it simulates the agents."""
        flags = ["--plays"] if plays else []
        async with child(
            "operator_child", str(self._operators_kubeconfig), self._host, *flags, *self._flags
        ) as operator:
            yield operator

    @asynccontextmanager
    async def command(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start the unchanged `spotrun operator`; at the end of the block it is asked to end."""
        host = self._host
        agents, self._metrics_port, liveness = free_ports(host, 3)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "spotrun", "operator", "--log-level=warning"),
            *(f"--kubeconfig={self._operators_kubeconfig}", f"--namespace={NAMESPACE}"),
            *(f"--agents-host={host}", f"--metrics-host={host}", f"--address={host}:{agents}"),
            *(f"--agents-port={agents}", f"--metrics-port={self._metrics_port}"),
            f"--liveness-port={liveness}",
        )
        try:
            yield process
            process.terminate()
            async with asyncio.timeout(QUIT_SECONDS):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def is_ready(self) -> bool:
        """Whether the operator reports that its caches are full."""
        url = f"http://{self._host}:{self._metrics_port}/readyz"
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        return False

    @asynccontextmanager
    async def nodes(self, pods: int, per_node: int = 250, zones: int = 0) -> AsyncIterator[Child]:
        """Start nodes with room for this many pods, in pools of some zones or in no pool."""
        access = self.cluster.admin
        files = (access.ca_file, access.cert_file, access.key_file)
        room = (f"--pods={pods}", f"--pods-per-node={per_node}", f"--zones={zones}")
        arguments = (access.server, *map(str, files), *room)
        async with child("nodes_child", *arguments) as nodes:
            await nodes.hear("ready")
            yield nodes

    async def create_jobs(self, names: Iterable[str], size: int, **spec: Any) -> None:  # noqa: ANN401
        """Create TrainingJobs of `size` workers."""
        bodies = (job(name, size, **spec) for name in names)
        await in_parallel([partial(self.kube.create, JOBS, body) for body in bodies])

    def lines(self, selection: Selection, version: int) -> AsyncGenerator[bytes, None]:
        """Follow a collection from a version on, without decoding and without bookmarks."""
        return follow(self._raw, selection, version)

    async def version(self, path: str) -> int:
        """Return the present version of a collection."""
        return int((await self.kube.get(path, limit="1"))["metadata"]["resourceVersion"])


async def follow(
    client: KubeClient, selection: Selection, version: int
) -> AsyncGenerator[bytes, None]:
    """Follow a collection until the caller stops.

    The API server ends a watch that is too slow: it is then continued where it stopped.
    """
    while True:
        last = b""
        stream = client.watch(selection, version=version, seconds=3600, silence_seconds=3600)
        async with aclosing(stream):
            async for lines in stream:
                for last in lines:
                    if not last.startswith(b'{"type":"BOOKMARK"'):
                        yield last
        version = _version_after(last) if last else version


def _version_after(line: bytes) -> int:
    """Return the version from which a watch continues after this line."""
    event = Codec(Identity).event(line)
    if isinstance(event, Added | Modified | Deleted | Bookmark):
        return event.object.metadata.version
    raise RuntimeError(f"a watch has failed: {line.decode()}")


def _is_established(kind: Manifest | None) -> bool:
    conditions = ((kind or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def job(name: str, size: int, **spec: Any) -> Manifest:  # noqa: ANN401 - JSON
    """A TrainingJob of a fixed size."""
    container = {"name": "trainer", "image": "registry.example/train:1", "args": ["train.py"]}
    template = {"spec": {"containers": [container]}}
    workers = {"template": template, "min": max(1, size // 2), "max": size, "replicas": size}
    return {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"workers": workers, **spec},
    }


async def in_parallel(
    tasks: Iterable[Callable[[], Awaitable[T]]], at_once: int = WRITERS
) -> list[T]:
    """Run all of them, a limited number at once."""
    rest = iter(tasks)

    async def work() -> list[T]:
        return [await task() for task in rest]

    done = await asyncio.gather(*(work() for _ in range(at_once)))
    return list(chain.from_iterable(done))


async def until(
    holds: Callable[[], Awaitable[bool]], seconds: float, what: str, pause_seconds: float = 0.2
) -> None:
    """Check repeatedly until the condition holds."""
    try:
        async with asyncio.timeout(seconds):
            while not await holds():  # noqa: ASYNC110 - other processes
                await asyncio.sleep(pause_seconds)
    except TimeoutError:
        raise TimeoutError(f"after {seconds:g} s this is still not true: {what}") from None


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    return _status_kb(pid, "VmRSS") / 1e3 * 1.024


def peak_rss_mb(pid: int) -> float:
    """Return the peak memory of a process."""
    return _status_kb(pid, "VmHWM") / 1e3 * 1.024


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fixed_work_seconds() -> float:
    """Return the CPU seconds that this machine needs now for a fixed piece of Python.

    The operator's CPU time is compared with it where machines and their loads differ, as in CI.
    """
    seconds = []
    for _ in range(5):
        began = time.process_time()
        for number in range(20_000):
            json.loads(json.dumps({"number": number, "words": ["spot"] * 8}))
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def _status_kb(pid: int, field: str) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{field}:")[2].split()[0])


def phases(jobs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the jobs in each phase."""
    counts: dict[str, int] = {}
    for one in jobs:
        phase = one.get("status", {}).get("phase", "")
        counts[phase] = counts.get(phase, 0) + 1
    return counts
