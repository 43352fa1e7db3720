from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from spotrun_trainer import Run
from tests.unit.trainer.run.begun import LOOPS, Made
from tests.unit.trainer.run.elastic import Jobs
from tests.unit.trainer.run.scripts import FEATURES

torch.set_num_threads(1)  # two cores are shared with other tests


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """A run that is about to begin, with a model and its optimizer."""
    monkeypatch.setattr(
        "spotrun_trainer.elastic.world_context.install_failure_note", lambda _reporter: None
    )
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    yield run, model, optimizer
    while LOOPS:
        LOOPS.pop().close()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Jobs whose worlds change in process."""
    jobs = Jobs(tmp_path)
    yield jobs
    jobs.close()
