"""A script may train several models, one after the other or in turns: each Run is a world."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
from torch.utils.data import TensorDataset
from spotrun_trainer import Run

data = TensorDataset(torch.arange(64.0).reshape(16, 4))


def steps_of(seed):
    run = Run(seed=seed)
    model = run.prepare(torch.nn.Linear(4, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    run.track(model=model, opt=opt)
    for step in run.steps(data, global_batch=8, microbatch=4, total=3):
        with step:
            for (x,) in step:
                step.backward(model(x).square().mean(), mean_of=len(x))
            step.update(opt)
        yield
    # One write: without a buffer, `print` writes the end of a line by itself, and the lines mix.
    print(f"run {seed} of {run.world_size}\\n", end="")


"""
IN_TURNS = "for _ in zip(*(steps_of(seed) for seed in (0, 1))): pass"
ONE_BY_ONE = "for _ in (step for seed in (0, 1) for step in steps_of(seed)): pass"


@pytest.mark.parametrize(
    ("way", "ends"),
    [(IN_TURNS, [0]), (ONE_BY_ONE, [0, 1])],  # the first one's end ends both
    ids=["in turns", "one by one"],
)
def test_the_processes_of_each_run_meet_anew(way: str, ends: list[int], tmp_path: Path) -> None:
    (script := tmp_path / "script.py").write_text(SCRIPT + way)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    ended = subprocess.run(
        [sys.executable, *torchrun, script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"run {seed} of 2" for seed in ends for _ in "ab"]
