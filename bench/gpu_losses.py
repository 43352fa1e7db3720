"""Two processes that share one GPU, one of which is killed during a step: the other one's stall.

They sum with gloo, as processes on one GPU do; and with NCCL, where it lets several processes share
a GPU (2.30), and continue over it after a loss (SPOTRUN_NCCL_IN_PROCESS). A scripted operator
announces the next world to both as soon as the killed process is gone: the time that a real
operator needs to notice it is in bench/recovery.py. The training is deterministic and small (its
steps take milliseconds), so that the survivor's weights can be compared, bit for bit, with those of
an undisturbed training in one process.
"""

import json
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.data import TensorDataset

from bench.operator_bench import say
from spotrun.wire import How
from spotrun_trainer import Run
from spotrun_trainer.elastic.backends import nccl
from spotrun_trainer.elastic.store_rendezvous import Backend
from tests.support.gpu import one_gpu
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.elastic import Jobs, die
from tests.unit.trainer.run.scripts import Trained

STEPS, KILLED_IN = 120, 60
WIDTH = 1024


def train(folder: Path) -> str:
    """Train, record when each step ended, and return a hash of the weights."""
    run = Run(seed=1, deterministic=True)
    model = run.prepare(
        nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Dropout(0.1), nn.Linear(WIDTH, 1))
    )
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run.track(model=model, opt=opt)
    words = TensorDataset(torch.randn(512, 64, generator=torch.Generator().manual_seed(7)))
    name = os.environ.get("SPOTRUN_WORKER", "alone")
    with (folder / f"{name}.steps").open("a") as steps:
        for step in run.steps(words, global_batch=32, microbatch=4, total=STEPS, num_workers=0):
            with step:
                for (x,) in step:
                    step.backward(model(x).square().sum(), weight=len(x))
                if (name, step.number) == ("b", KILLED_IN):
                    die()
                step.update(opt)
                steps.write(json.dumps([step.number, time.monotonic()]) + "\n")
                steps.flush()
    return Trained([], {key: value.cpu() for key, value in model.state_dict().items()}).digest


def measure_losses(repeats: int) -> None:
    """Kill one of two processes, several times over each backend."""
    with tempfile.TemporaryDirectory() as name:
        alone = run_alone(train, Path(name)).value
    for backend in backends():
        stalls, lost, equal = [], 0, True
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as name:
                stall, again, weights = lose_one(Path(name), backend)
            stalls.append(stall)
            lost += again
            equal = equal and weights == alone
        say("gpu_node_lost_stall_seconds", stalls, "s", backend=backend.value)
        say("gpu_node_lost_steps_lost", lost, "steps", backend=backend.value)
        say("gpu_node_lost_bits_equal", int(equal), "of all losses", backend=backend.value)


def backends() -> list[Backend]:
    """Return those over which several processes can share this machine's GPU."""
    return [Backend.GLOO, Backend.NCCL] if one_gpu.can_be_shared() else [Backend.GLOO]


def lose_one(folder: Path, backend: Backend) -> tuple[float, int, str]:
    """Return the survivor's stall, its repeated steps, and its final weights."""
    jobs = Jobs(folder)
    try:
        job = jobs.start(train, folder, workers=())
        job.publish(How.RESTART, "a", "b")
        for number, worker in enumerate("ab"):
            shared = {**one_gpu.neighbours(number), nccl.VARIABLE: "1"}
            job.start(worker, env=shared if backend is Backend.NCCL else {})
        job.until_dead("b")
        job.publish(How.ABORT, "a")
        (survivor,) = job.ended("a")
    finally:
        jobs.close()
    if survivor.error:
        raise SystemExit(f"the survivor ended with {survivor.error}\n{survivor.said}")
    lines = [json.loads(line) for line in (folder / "a.steps").read_text().splitlines()]
    numbers, ends = [step for step, _ in lines], [when for _, when in lines]
    gaps = [later - sooner for sooner, later in pairwise(ends)]
    return max(gaps) - median(gaps), len(numbers) - len(set(numbers)), survivor.value
