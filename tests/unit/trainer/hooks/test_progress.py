import atexit
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import SupportsFloat

import pytest
import torch
from torch import nn

from spotrun.wire import Metric
from spotrun_trainer import progress, report
from spotrun_trainer.hooks.watches import Watch, watch_optimizers
from spotrun_trainer.process.ipc_files import read_progress
from tests.unit.trainer.hooks.test_watches import OPTIMIZERS, gradient_accumulation


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    monkeypatch.setenv("SPOTRUN_WORLD_NUMBER", "3")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    watch = Watch()
    monkeypatch.setattr("spotrun_trainer.hooks.progress.WATCH", watch)
    end = watch_optimizers(OPTIMIZERS, watch)
    yield watch
    end()
    if watch.reports is not None:
        atexit.unregister(watch.reports.close)


def test_a_script_that_goes_on_says_where_it_is(watch: Watch, tmp_path: Path) -> None:
    progress(step=500, total_steps=2000)
    assert not (tmp_path / "progress.json").exists()  # no step was made yet
    gradient_accumulation(nn.Linear(3, 1))
    assert watch.reports is not None
    watch.reports.close()
    told = read_progress(tmp_path)
    assert (told.world_number, told.step, told.total) == (3, 505, 2000)


def test_values_are_told_as_numbers(watch: Watch, tmp_path: Path) -> None:
    loss = torch.ones(1, requires_grad=True) * 2.5
    progress(loss=loss, metrics={"accuracy": 0.5, "bad": float("nan"), "a\nname": 1, "": 2})
    gradient_accumulation(nn.Linear(3, 1))
    told = read_progress(tmp_path)
    values = {one.name: one.value for one in told.metrics}
    assert math.isnan(values.pop("bad"))
    assert values == {"accuracy": 0.5, "loss": 2.5, "a name": 1.0}
    assert json.loads((tmp_path / "progress.json").read_text())["metrics"]["loss"] == 2.5


def test_values_have_the_step_that_they_were_told_with(watch: Watch, tmp_path: Path) -> None:
    report(step=100, val_loss=0.75)
    report(step=200, val_loss=0.5, accuracy=torch.tensor(0.25))
    progress(step=300)
    assert watch.reports is not None
    watch.reports.close()
    told = read_progress(tmp_path)
    assert (told.step, told.metrics) == (
        300,
        (Metric("val_loss", 0.5, 200), Metric("accuracy", 0.25, 200)),
    )


class Unfit:
    """A value of a type that raises what it likes."""

    def __float__(self) -> float:
        raise LookupError("it was freed")


@pytest.mark.parametrize("value", [[0.1], None, torch.ones(3), "fast", 10**400, Unfit()])
def test_a_value_that_is_no_number_is_left_out_and_said_once(
    value: SupportsFloat,
    watch: Watch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spotrun_trainer.telemetry.reporter.CALM_SECONDS", 0.0)
    progress(metrics={"lr": value, "accuracy": 0.5})
    gradient_accumulation(nn.Linear(3, 1))
    told = read_progress(tmp_path)
    assert (told.step, told.metrics) == (5, (Metric("accuracy", 0.5, 0),))
    assert [record.getMessage() for record in caplog.records if "'lr'" in record.getMessage()]
    assert len(caplog.records) == 1


def test_without_optimizers_of_torch_its_word_is_all(watch: Watch, tmp_path: Path) -> None:
    for step in range(1, 5):
        progress(step=step, samples=step * 32)
    assert watch.reports is not None
    watch.reports.close()
    told = read_progress(tmp_path)
    assert (told.step, told.samples) == (4, 128)


@pytest.mark.parametrize("value", [-1, 2.5, True, "7"])
def test_a_step_is_a_whole_number(value: object, watch: Watch) -> None:
    with pytest.raises(ValueError, match=r"step=.* give a whole number from 0 on"):
        progress(step=value)  # type: ignore[arg-type]


def test_outside_of_a_job_it_does_nothing(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPOTRUN_DIR")
    progress(step=3, loss=1.0)
    gradient_accumulation(nn.Linear(3, 1))
    assert list(tmp_path.iterdir()) == []
