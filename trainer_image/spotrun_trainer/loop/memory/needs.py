"""The measured needs of a training: plain JSON for `kubectl tjob plan`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VERSION = 2
PLAN_FILE = "SPOTRUN_PLAN"
"""The environment variable with the file into which a planned script writes its needs."""
_OF_A_WORLD = ("SPOTRUN_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")


@dataclass(frozen=True)
class Needs:
    """The bytes that a process with the whole model needs, by their use.

    All are counted from the tensors that torch makes, without their content.
    """

    parameters: int
    """The number of parameters, of which `trained` are updated."""
    trained: int
    weight_bytes: int  # of parameters and buffers
    gradient_bytes: int  # what a backward pass leaves in `grad`
    sum_bytes: int  # the flat sums that several processes add up in, in 32 bits
    optimizer_bytes: int
    update_bytes: int  # the most that the optimizers hold in addition, while they step
    block_bytes: int  # of the weights of the largest block
    rest_bytes: int  # of the weights outside all blocks
    behind_bytes: int  # the part of these for weights that are used after the first block
    blocks: int
    microbatch: int
    global_batch: int
    weight_per_sample: float | None  # targets or tokens, as `mean_of=` counts them
    flops: int  # of one microbatch, forward and backward, none of them computed twice
    activation_bytes: dict[str, int] = field(default_factory=dict)
    """The most that a microbatch holds in addition to weights and gradients, by variant: "as
    written", "checkpointed", "bf16" and "bf16, checkpointed"."""
    block_activations: dict[str, dict[str, int]] = field(default_factory=dict)
    """The same by variant for the stages of a pipeline, as `by_block.BlockBytes.found` names it; a
    variant is missing where blocks are not called once each."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The variants that could not be measured, and why."""
    version: int = VERSION


def is_planned() -> bool:
    """Whether this process must measure what its script needs, and not train."""
    return PLAN_FILE in os.environ


def needs_of(script: str | Path, *arguments: str, timeout_seconds: float) -> Needs:
    """Run a script in its own process to measure its needs; a ValueError says why that failed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_WORLD)}
    command = [sys.executable, "-m", __package__, str(script), *arguments]
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        command, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    with child:
        try:
            found, said = child.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            _kill(child)
            raise ValueError(
                f"{script} cannot be planned: it did not reach its first step within "
                f"{timeout_seconds:g} s, and was ended; a plan computes nothing, so look for a "
                "download or for data that the script reads as a whole, or give a longer "
                "timeout_seconds="
            ) from None
        except BaseException:  # Ctrl-C does not reach the child, which has its own session
            _kill(child)
            raise
    if child.returncode:
        raise ValueError(_why_not(script, child.returncode, said))
    of_script: Mapping[str, object] = json.loads(found)
    return Needs(**of_script)  # type: ignore[arg-type]


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill a child that leads a session, with all that it has started."""
    os.killpg(child.pid, signal.SIGKILL)


def _why_not(script: str | Path, code: int, said: str) -> str:
    last = said.strip().rpartition("\n")[2]
    if code > 0:
        return last or f"{script} cannot be planned"
    names = {int(one): one.name for one in signal.Signals}
    ended = f"{script} cannot be planned: {names.get(-code, f'signal {-code}')} ended it"
    if code == -signal.SIGKILL:
        ended += "; memory may have run out: read less of the data before the first step"
    return f"{ended}; {last}" if last else ended
