"""Stock torchrun (c10d) that loses a node, for comparison; and what every loss is measured by.

Its store lives in this process, which flatters it: in a cluster it lives in a worker, and its loss
ends the job.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from bench.operator_bench import ROOT
from bench.recovery_training import WIDTH
from tests.integration.trainer.traces import Trace

TORCHRUN = str(Path(sys.executable).parent / "torchrun")
TRAINING = ROOT / "bench" / "recovery_training.py"
PATIENCE_SECONDS = 180.0
WARM_SECONDS = 5.0  # of steps before anything happens
TUNED = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


def stock(scratch: Path, timers: str, layers: int) -> float:
    """The same loss under stock torchrun: two nodes, the one with rank 0 is killed."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    prepare(folder)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with torchruns(folder, store.port, timers, layers) as agents:
        until_both_train(folder)
        rank0 = next(line["pid"] for line in trace_of(folder) if line["rank"] == 0)
        killed = next(agent for agent in agents if rank0 in tree(agent.pid))
        lost_at = time.time()
        kill(tree(killed.pid))
        until(lambda: trains(1, lost_at)(trace_of(folder)))
    return first_step(trace_of(folder), 1, lost_at) - lost_at


def torchruns(
    folder: Path, port: int, timers: str, layers: int
) -> AbstractContextManager[list[subprocess.Popen[bytes]]]:
    conf = ",".join(filter(None, ("is_host=0", timers)))
    command = [
        TORCHRUN,
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
        f"--layers={layers}",
    ]
    # Without it a surviving rank 0 and joining workers wait for each other until both fail.
    return running([command, command], folder, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})


@contextmanager
def running(
    commands: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run programs that log to one file; all that they have started is killed at the end."""
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("wb") as log:
        agents = [
            subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
            for command in commands
        ]
        try:
            yield agents
        finally:
            for agent in agents:
                kill(tree(agent.pid))
            for agent in agents:
                agent.wait()


def kill(pids: Iterable[int]) -> None:
    """Take processes away without a word."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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


def until_both_train(folder: Path) -> None:
    """Wait until two have trained for a while."""
    until(lambda: trains(2)(trace_of(folder)))
    warm_at = time.time() + WARM_SECONDS
    until(lambda: trains(2, warm_at)(trace_of(folder)))


def until(holds: Callable[[], Any]) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError("torchrun does not train: see what it has logged")
        time.sleep(0.02)


def trains(size: int, since: float = 0.0) -> Callable[[Trace], bool]:
    """Holds once all ranks of a world of that size have made a step after a moment."""

    def holds(lines: Trace) -> bool:
        found = {line["rank"] for line in lines if line["size"] == size and line["time"] > since}
        return len(found) == size

    return holds


def first_step(lines: Trace, size: int, since: float) -> float:
    """Return the time at which the last rank of the smaller world had finished its first step."""
    found: dict[int, float] = {}
    for line in lines:
        if line["size"] == size and line["time"] > since:
            found.setdefault(line["rank"], line["time"])
    return max(found.values())
