"""How long a lost node holds a training up: ours beside stock torchrun, in one run.

A node with one worker is lost, and the clock runs from then to the moment at which every worker of
the smaller world has finished a step. `killed`: all its processes get SIGKILL at once, and its Node
object goes. `silent`: its processes are stopped and its node says nothing more, as with a cable
that was pulled: connections stay open. Ours runs under the operator's own code, on process nodes of
devcluster; the training is `bench/recovery_training.py`: 25 M parameters, four loader workers.

Stock torchrun (c10d) runs the same model in DDP. Its store lives in this process, which flatters
it: in a cluster it lives in a worker, and its loss ends the job. `stock` has torchrun's timers,
`tuned` short ones: see TUNED.

Run as `.venv/bin/python bench/recovery.py [--quick] [--repeats 3]`.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from bench.operator_bench import ROOT, say
from bench.recovery_training import WIDTH
from devcluster.cluster import Cluster
from spotrun_trainer.telemetry import timeline
from tests.integration.trainer.helpers import Place, open_place
from tests.integration.trainer.traces import Trace
from tests.operator_world import install_crds

TRAINING = ROOT / "bench" / "recovery_training.py"
PATIENCE_SECONDS = 180.0
WARM_SECONDS = 5.0  # of steps before anything happens
TUNED = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


@dataclass(frozen=True)
class Loss:
    """What happens to whom."""

    workers: int
    rank: int
    is_silent: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one loss of each kind, no stock timers"
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    losses = [Loss(2, 0), Loss(2, 1), Loss(3, 0), Loss(3, 2), Loss(2, 0, is_silent=True)]
    if arguments.quick:
        losses, arguments.repeats = [Loss(2, 0), Loss(2, 0, is_silent=True)], 1
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        install_crds(cluster)
        asyncio.run(measure(cluster, Path(scratch), losses, arguments.repeats))
        peers = {"tuned": TUNED} if arguments.quick else {"tuned": TUNED, "stock": ""}
        for name, timers in peers.items():
            took = [stock(Path(scratch), timers) for _ in range(arguments.repeats)]
            say(f"node_lost_{name}_seconds", took, "s", workers=2, to="first step")


async def measure(cluster: Cluster, scratch: Path, losses: list[Loss], repeats: int) -> None:
    for loss in losses:
        took: list[float] = []
        phases: dict[str, list[float]] = {}
        for repeat in range(repeats):
            folder = scratch / f"{loss.workers}-{loss.rank}-{loss.is_silent}-{repeat}"
            seconds, parts = await lose(cluster, folder, loss)
            took.append(seconds)
            for part, value in parts.items():
                phases.setdefault(part, []).append(value)
            shutil.rmtree(folder)
        name = "node_lost_silent_restart_seconds" if loss.is_silent else "node_lost_restart_seconds"
        split = {part: round(median(values), 2) for part, values in phases.items()}
        say(name, took, "s", workers=loss.workers, rank=loss.rank, phases=split)


async def lose(cluster: Cluster, folder: Path, loss: Loss) -> tuple[float, dict[str, float]]:
    """Train, lose a node, and return how long it took and what the time went into."""
    prepare(folder)
    async with open_place(cluster, folder) as place:
        await place.add_nodes(*(f"n{number}" for number in range(loss.workers)))
        await place.start(
            TRAINING,
            "run",
            folder,
            workers=loss.workers,
            sizes={"min": 1},
            env={"SPOTRUN_TRACE": str(folder / "phases")},
        )
        async with place.operator() as operator:
            await place.until_trace(trains(loss.workers))
            await place.until_trace(trains(loss.workers, time.time() + WARM_SECONDS))
            # A new leader concludes nothing from silence, for a minute after it began to lead.
            operator._leading_since -= 100  # noqa: SLF001
            lost_at = time.time()
            await take_away(place, loss)
            smaller = loss.workers - 1
            lines = await place.until_trace(trains(smaller, lost_at))
    back_at = first_step(lines, smaller, lost_at)
    return back_at - lost_at, split(folder / "phases", lost_at, back_at)


async def take_away(place: Place, loss: Loss) -> None:
    pod = await place.member(loss.rank)
    if not loss.is_silent:
        await place.machine(pod).vanish(delete_node=True)
        return
    place.machine(pod).go_silent()
    for pid in place.processes(pod):
        os.kill(pid, signal.SIGSTOP)


def trains(size: int, since: float = 0.0) -> Callable[[Trace], bool]:
    """Holds once all ranks of a world of that size have made a step after a moment."""

    def holds(lines: Trace) -> bool:
        found = {line["rank"] for line in lines if line["size"] == size and line["time"] > since}
        return len(found) == size

    return holds


def first_step(lines: Trace, size: int, since: float) -> float:
    """When the last rank of the smaller world had finished its first step."""
    found: dict[int, float] = {}
    for line in lines:
        if line["size"] == size and line["time"] > since:
            found.setdefault(line["rank"], line["time"])
    return max(found.values())


def split(folder: Path, lost_at: float, back_at: float) -> dict[str, float]:
    """What the time went into, of the worker that was back last."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in timeline.read(file)]
    recent = [one for one in timeline.recoveries(lines) if max(one.at.values()) > lost_at]
    if not recent:
        return {}
    at = min(recent, key=lambda one: abs(max(one.at.values()) - back_at)).at
    marks = [mark for mark in timeline.PHASES if mark in at and at[mark] > lost_at]
    before, parts = lost_at, {}
    for mark in marks:
        parts[mark] = at[mark] - before
        before = at[mark]
    return parts


def stock(scratch: Path, timers: str) -> float:
    """The same loss under stock torchrun: two nodes, the one with rank 0 is killed."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    prepare(folder)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with torchruns(folder, store.port, timers) as agents:
        until(lambda: trains(2)(trace_of(folder)))
        warm_at = time.time() + WARM_SECONDS
        until(lambda: trains(2, warm_at)(trace_of(folder)))
        rank0 = next(line["pid"] for line in trace_of(folder) if line["rank"] == 0)
        killed = next(agent for agent in agents if rank0 in tree(agent.pid))
        lost_at = time.time()
        for pid in tree(killed.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: trains(1, lost_at)(trace_of(folder)))
    return first_step(trace_of(folder), 1, lost_at) - lost_at


@contextmanager
def torchruns(folder: Path, port: int, timers: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    conf = ",".join(filter(None, ("is_host=0", timers)))
    command = [
        str(Path(sys.executable).parent / "torchrun"),
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=bench",
        f"--rdzv-conf={conf}",
        "--nnodes=1:2",
        "--nproc-per-node=1",
        "--max-restarts=100",
        "--monitor-interval=0.1",
        str(TRAINING),
        "ddp",
        str(folder),
    ]
    # Without it a surviving rank 0 and newcomers wait for each other until both fail.
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    log = (folder / "log").open("wb")
    agents = [
        subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        for _ in range(2)
    ]
    try:
        yield agents
    finally:
        for pid in [pid for agent in agents for pid in tree(agent.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for agent in agents:
            agent.wait()
        log.close()


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only the names are needed
        if name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(f"/proc/{name}/stat").read_text()
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def prepare(folder: Path) -> None:
    (folder / "phases").mkdir(parents=True)
    torch.manual_seed(0)
    (folder / "samples").write_bytes(torch.randn(64, WIDTH).numpy().tobytes())


def trace_of(folder: Path) -> Trace:
    file = folder / "trace.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def until(holds: Callable[[], Any]) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError("torchrun does not train: see what it has logged")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
