"""The loop of the documentation, word for word, alone and under a real torchrun."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.trainer_world import run_alone

SCRIPT = """
import copy
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset
from spotrun_trainer import Run

torch.set_num_threads(1)


def load(path):
    samples = torch.arange(640.0).reshape(160, 4) / 640, torch.arange(160) % 3
    return TensorDataset(*samples), TensorDataset(*(part[:50] for part in samples))


def GPT():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


def loss_fn(model, batch):
    x, y = batch
    return F.cross_entropy(model(x), y, reduction="sum"), y.numel()


run = Run(seed=1)
train, val = run.once(load, "data/")
model = run.prepare(GPT())
opt = AdamW(model.parameters(), lr=3e-4)
sched = StepLR(opt, 5)
ema = copy.deepcopy(model)
run.track(model=model, opt=opt, sched=sched, ema=ema)
for step in run.steps(train, global_batch=32, microbatch=8, total=10):
    with step:
        for x, y in step:
            loss = F.cross_entropy(model(x), y, reduction="sum")
            step.backward(loss, weight=y.numel())
        step.update(opt, clip=1.0, schedule=sched)
        run.log(loss=step.loss)
    if run.every(5):
        run.log(val=run.evaluate(model, val, loss_fn))
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def run_script(script: str) -> None:
    runpy.run_path(script)


def test_the_loop_trains_alone(script: Path) -> None:
    checkpoints = script.with_name("checkpoints")
    ended = run_alone(run_script, str(script), env={"SPOTRUN_CHECKPOINT": str(checkpoints)})
    assert ended.error == "", ended.said
    assert "step 10  loss 1." in ended.said
    assert "  val 1." in ended.said
    assert (checkpoints / "step-10.g0/COMPLETE").exists()


def test_the_loop_trains_under_torchrun(script: Path) -> None:
    checkpoints = script.with_name("checkpoints")
    done = subprocess.run(
        [*TORCHRUN, str(script)],
        env={"SPOTRUN_CHECKPOINT": str(checkpoints), "TMPDIR": str(script.parent)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step 10  loss 1." in done.stdout
    assert (checkpoints / "step-10.g0/COMPLETE").exists()
