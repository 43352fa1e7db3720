"""The training that nobody disturbs, to compare the weights of all others with.

The same bits come of the same PyTorch on the same kind of processor. kind's nodes are this machine;
those of another cluster are not, so there the script runs in a pod, without the operator.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.files import READER
from tests.e2e.kind.machine import ROOT
from tests.integration.trainer.traces import Line, read_trace, whole_lines

_SCRIPT = ROOT / "tests/scripts/run_loop.py"
_IN_POD = "/tmp"  # noqa: S108 (a container has its own)


def here(folder: Path) -> dict[int, str]:
    """The weights after each of 400 steps, on this machine."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, _SCRIPT, folder], env=environment, check=True)
    return _weights(read_trace(folder / "trace.jsonl"))


def in_reader(cluster: Cluster, namespace: str) -> dict[int, str]:
    """The weights after each of 400 steps, on a node: in the pod that reads files."""
    pod = ("exec", "--stdin", READER, f"--namespace={namespace}", "--")
    cluster.kubectl(*pod, "python3", "-", _IN_POD, given=_SCRIPT.read_text())
    said = cluster.kubectl(*pod, "cat", f"{_IN_POD}/trace.jsonl")
    return _weights(whole_lines(said))


def _weights(lines: Iterable[Line]) -> dict[int, str]:
    return {line["step"]: line["weights"] for line in lines}
