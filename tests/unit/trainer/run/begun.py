"""A run that has begun in the test's own process."""

from collections.abc import Generator
from typing import cast

import torch
from torch import nn

from spotrun_trainer import Run
from spotrun_trainer.step.step import Step
from tests.unit.trainer.run.scripts import dataset

Made = tuple[Run, nn.Linear, torch.optim.Optimizer]
LOOPS: list[Generator[Step, None, None]] = []  # that tests have begun


def first_step(run: Run, **options: object) -> Step:
    arguments: dict[str, object] = {
        "global_batch": 4,
        "microbatch": 2,
        "total": 2,
        "num_workers": 0,
    } | options
    loop = run.steps(dataset(), **arguments)  # type: ignore[arg-type]
    LOOPS.append(cast("Generator[Step, None, None]", loop))
    return next(loop)
