"""torchft that loses a replica without notice, for comparison, where it is installed.

Its lighthouse lives in this process, and outlives all. What the survivor lost is measured as for
ours: the longest gap between two steps of it, without the step that it would have taken anyway.
"""

import importlib.util
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.operator_bench import ROOT
from bench.recovery_stock import (
    TORCHRUN,
    kill,
    prepare,
    running,
    trace_of,
    trains,
    tree,
    until,
    until_both_train,
)

TRAINING = ROOT / "bench" / "recovery_torchft_training.py"
HEARTBEATS_MS = {"torchft": 5000, "torchft_tuned": 1000}
"""The lighthouse takes a replica for dead after this long without a heartbeat: its default, and ten
beats."""
STEPS_AFTER = 5


def is_installed() -> bool:
    """Whether it can be measured here."""
    return importlib.util.find_spec("torchft") is not None


def lose_a_replica(scratch: Path, heartbeat_timeout_ms: int, layers: int) -> float:
    """Measure the time a survivor lost when the other replica was killed with all its processes."""
    from torchft.coordination import LighthouseServer  # noqa: PLC0415 - only where it is installed

    folder = Path(tempfile.mkdtemp(dir=scratch))
    prepare(folder)
    lighthouse = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, heartbeat_timeout_ms=heartbeat_timeout_ms
    )
    try:
        with replicas(folder, lighthouse.address(), layers) as agents:
            until_both_train(folder)
            lost_at = time.time()
            killed = set(tree(agents[0].pid))
            kill(killed)
            until(lambda: trains(1, lost_at)(trace_of(folder)))
            until(lambda: len(steps_of_survivor(folder, killed, lost_at)) > STEPS_AFTER)
    finally:
        lighthouse.shutdown()
    steps = steps_of_survivor(folder, killed, 0.0)
    gaps = [(late - early, late) for early, late in pairwise(steps)]
    usual = median(gap for gap, _ in gaps[-STEPS_AFTER:])
    return max(gap for gap, late in gaps if late > lost_at) - usual


def steps_of_survivor(folder: Path, killed: set[int], since: float) -> list[float]:
    """Return the times at which the processes that live on have completed steps."""
    lines = [line for line in trace_of(folder) if line["pid"] not in killed]
    return [line["time"] for line in lines if line["time"] > since]


def replicas(
    folder: Path, lighthouse: str, layers: int
) -> AbstractContextManager[list[subprocess.Popen[bytes]]]:
    command = (TORCHRUN, "--standalone", "--nnodes=1", "--nproc-per-node=1", str(TRAINING))
    commands = [
        [*command, str(folder), f"--layers={layers}", f"--replica={replica}"]
        for replica in range(2)
    ]
    return running(commands, folder, {"TORCHFT_LIGHTHOUSE": lighthouse})
