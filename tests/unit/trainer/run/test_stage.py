"""The stage in a run's checkpoints: data, steps and the end of a stage."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

from spotrun_trainer import Run


def enter(monkeypatch: pytest.MonkeyPatch, name: str, index: int, until: int | None = None) -> None:
    content = {"name": name, "index": index, "untilStep": until}
    monkeypatch.setenv("SPOTRUN_STAGE", json.dumps(content))


def train(
    place: Path,
    *,
    samples: int = 64,
    batch: int = 8,
    lr: float = 0.1,
    **end: float,
) -> tuple[list[int], list[float], float]:
    """Return the steps, the first value of each step's samples, and the last learning rate."""
    x = torch.arange(samples, dtype=torch.float32).unsqueeze(1)
    run = Run(seed=1, checkpoint=place, every="1000 steps")
    model = run.prepare(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    run.track(model=model, optimizer=optimizer)
    steps, seen = [], []
    data = TensorDataset(x)
    for step in run.steps(data, global_batch=batch, microbatch=batch, shuffle=False, **end):  # type: ignore[arg-type]
        with step:
            for (values,) in step:
                seen.append(float(values[0, 0]))
                step.backward(mse_loss(model(values[:, :1]), values[:, :1] * 0), mean_of=batch)
            step.update(optimizer, clip=1.0)
        steps.append(run.step)
    return steps, seen, optimizer.param_groups[0]["lr"]


def test_a_stage_ends_at_its_step_and_the_next_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, "a", 0, until=3)
    assert train(tmp_path, total=100) == ([1, 2, 3], [0, 8, 16], 0.1)
    assert train(tmp_path, total=100)[0] == [], "all of the stage is done"
    enter(monkeypatch, "b", 1, until=5)
    # The same data goes on, in batches of the new size.
    assert train(tmp_path, total=100, batch=4, lr=0.01) == ([4, 5], [24, 28], 0.01)


def test_other_data_begins_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, "a", 0, until=3)
    train(tmp_path, total=100)
    enter(monkeypatch, "b", 1, until=5)
    assert train(tmp_path, total=5, samples=32)[:2] == ([4, 5], [0, 8])
    # It goes on in that after a restart within the stage.
    enter(monkeypatch, "b", 1, until=6)
    assert train(tmp_path, total=100, samples=32)[:2] == ([6], [16])


def test_epochs_are_those_of_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, "a", 0, until=3)
    train(tmp_path, total=100)
    enter(monkeypatch, "b", 1)
    assert train(tmp_path, samples=32, epochs=1)[0] == [4, 5, 6, 7]
    assert train(tmp_path, samples=32, epochs=1)[0] == []


def test_without_a_stage_other_data_is_refused_as_ever(tmp_path: Path) -> None:
    train(tmp_path, total=3)
    with pytest.raises(ValueError, match="the checkpoint was made with other data"):
        train(tmp_path, total=5, samples=32)
    assert Run().stage is None


def test_a_script_sees_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, "long", 2, until=7)
    stage = Run().stage
    assert stage is not None
    assert (stage.name, stage.index, stage.until_step) == ("long", 2, 7)
