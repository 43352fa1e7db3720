"""A worker that goes on has its first shards fetched before it reads them."""

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from spotrun_trainer.data.order.windows import WindowedOrder
from spotrun_trainer.run import Run
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.data.formats.files import SHARDS, fill, opened
from tests.unit.trainer.run.test_under_spotrun import run_under_spotrun

GLOBAL_BATCH, WINDOW = 4, 10


@dataclass(frozen=True)
class Course:
    """The steps that a training has in all."""

    data: str
    checkpoints: str
    total: int


def train_on_shards(course: Course) -> list[int]:
    """Train on numbers, and return those of this process."""
    run = Run(1, checkpoint=course.checkpoints)
    data = opened(course.data, "frames", window=WINDOW)
    for thread in threading.enumerate():  # a large model takes its time meanwhile
        if thread.name == "first-shards":
            thread.join(30)
    model = run.prepare(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    run.track(model=model, optimizer=optimizer)
    seen = list[int]()
    for step in run.steps(data, global_batch=GLOBAL_BATCH, microbatch=2, total=course.total):
        with step:
            for batch in step:
                seen += batch[:, 0].tolist()
                step.backward(model(batch[:, :1].float()).sum(), weight=len(batch))
            step.update(optimizer)
    return seen


def test_they_are_in_the_cache_when_they_are_read(tmp_path: Path) -> None:
    fill(tmp_path / "data", "frames")
    course = Course(str(tmp_path / "data"), str(tmp_path / "checkpoints"), total=2)
    before = run_alone(
        train_on_shards, course, env={"SPOTRUN_DATA_CACHE": str(tmp_path / "of-another-node")}
    )
    assert before.error == "", before.said
    env = {"SPOTRUN_DATA_CACHE": str(tmp_path / "cache"), "SPOTRUN_TRACE": str(tmp_path / "trace")}
    course = replace(course, total=4)
    after = run_under_spotrun(tmp_path, course, script=train_on_shards, restore="step-2.g0", **env)
    assert [one.error for one in after] == ["", ""], after[0].said
    order = WindowedOrder(SHARDS, WINDOW, seed=1, shuffle=True)
    expected = [order.sample(number).index for number in range(2 * GLOBAL_BATCH, 4 * GLOBAL_BATCH)]
    assert sorted(after[0].value + after[1].value) == sorted(expected)
    files = (tmp_path / "trace").iterdir()
    lines = [line for file in files for line in file.read_text().splitlines()]
    marks = [one for line in lines if (one := json.loads(line)).get("mark") == "data_preloaded"]
    assert sum(one["shards"] for one in marks) == len(SHARDS)
    assert all(one["preloaded_bytes"] > 0 for one in marks)
