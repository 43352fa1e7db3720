"""A training begins from another one's checkpoint, and has a place of its own to write."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from spotrun_trainer import Run
from spotrun_trainer.checkpoint import Checkpoints
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.scripts import CLASSES, FEATURES, dataset


def train(place: str, total: int, rate: float) -> tuple[list[int], float, Tensor]:
    """Returns the numbers of the steps that were done, the rate and the weight at the end."""
    run = Run(1, checkpoint=place, deterministic=True)
    model = run.prepare(nn.Linear(FEATURES, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    run.track(model=model, optimizer=optimizer)
    done = []
    for step in run.steps(dataset(), global_batch=8, microbatch=4, total=total, num_workers=0):
        with step:
            for features, classes in step:
                step.backward(functional.cross_entropy(model(features), classes), mean_of=4)
            step.update(optimizer)
        done.append(step.number)
    return done, optimizer.param_groups[0]["lr"], model.weight.detach().clone()


def well(ended: Ended) -> Any:
    assert not ended.error, ended.said
    return ended.value


def names(place: Path) -> list[str]:
    return Checkpoints(place, keep=1).complete()


def test_it_goes_on_from_there_with_the_rate_of_its_own_script(tmp_path: Path) -> None:
    parent, child, whole = tmp_path / "parent", tmp_path / "child", tmp_path / "whole"
    well(run_alone(train, str(parent), 2, 0.1))
    before = {file: file.read_bytes() for file in parent.rglob("*") if file.is_file()}
    env = {"SPOTRUN_CHECKPOINT_FROM": f"{parent}/step-2.g0"}

    same = run_alone(train, str(child), 4, 0.1, env=env)
    assert f"continuing from step-2.g0, found in {parent}" in same.said
    done, rate, weight = well(same)
    assert (done, rate) == ([3, 4], 0.1)
    assert torch.equal(weight, well(run_alone(train, str(whole), 4, 0.1))[2])
    assert names(child) == ["step-4.g0"]
    assert {file: file.read_bytes() for file in parent.rglob("*") if file.is_file()} == before

    again, _, _ = well(run_alone(train, str(child), 6, 0.1, env=env))
    assert again == [5, 6], "by now it has a checkpoint of its own"
    newest = {"SPOTRUN_CHECKPOINT_FROM": str(parent)}
    ended = [well(one) for one in run_world(2, train, str(tmp_path / "other"), 4, 0.05, env=newest)]
    assert [(done, rate) for done, rate, _ in ended] == [([3, 4], 0.05)] * 2
    assert not torch.equal(ended[0][2], weight)


def test_what_is_not_there_is_an_error_and_no_beginning_from_scratch(tmp_path: Path) -> None:
    for place, why in (
        (tmp_path / "nothing", "begins from the newest checkpoint in "),
        (tmp_path / "nothing/step-9.g0", "begins from step-9.g0 in "),
    ):
        env = {"SPOTRUN_CHECKPOINT_FROM": str(place)}
        ended = run_alone(train, str(tmp_path / "child"), 4, 0.1, env=env)
        assert why in ended.error
        assert "name one that exists (spec.checkpoint.beginFrom" in ended.error
        assert not names(tmp_path / "child")
