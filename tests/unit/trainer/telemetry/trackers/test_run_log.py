"""`run.log` in whole runs: what it logs lies beside the checkpoints, each step once."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from spotrun_trainer import Run
from tests.support.processes.trainer_world import run_world


def train(place: str, total: int, *, fails_after: int | None = None) -> list[str]:
    """Train a small model with a checkpoint every second step; returns what was logged."""
    run = Run(seed=1, checkpoint=place, every="2 steps")
    model = run.prepare(nn.Linear(4, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, opt=opt)
    data = TensorDataset(torch.ones(64, 4))
    logged = []
    for step in run.steps(data, global_batch=8, microbatch=4, total=total, num_workers=0):
        with step:
            for (x,) in step:
                step.backward(model(x).square().mean(), mean_of=len(x))
            step.update(opt)
            run.log(loss=step.loss)
            logged.append(str(float(step.loss)))
        if fails_after == run.step:
            raise RuntimeError("the script fails")
    return logged


def lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in (place / "logs/metrics.jsonl").read_text().splitlines()]


def test_a_restart_goes_on_in_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_TRACKERS", "jsonl")
    with pytest.raises(RuntimeError, match="the script fails"):
        train(str(tmp_path), 8, fails_after=5)
    train(str(tmp_path), 8)

    there = lines(tmp_path)
    assert [one["step"] for one in there] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [one["loss"] for one in there] == sorted((one["loss"] for one in there), reverse=True)
    assert [one for one in tmp_path.glob("logs/*") if one.name != "metrics.jsonl"] == []


def test_rank_0_alone_records(tmp_path: Path) -> None:
    ended = run_world(2, train, str(tmp_path), 4)

    assert [one.error for one in ended] == ["", ""]
    assert [one["step"] for one in lines(tmp_path)] == [1, 2, 3, 4]
    assert len(list(tmp_path.glob("logs/events.out.tfevents.*"))) == 1
    assert "logged" not in ended[0].said
