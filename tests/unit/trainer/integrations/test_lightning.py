"""Lightning's own Trainer in two processes: each step is made once, whoever is told to end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spotrun_trainer.integrations.lightning import SpotrunCallback, newest_checkpoint, size_of_world
from tests.support.processes.torchrun_world import gone_on, told_to_end

SCRIPT = Path(__file__).parents[4] / "examples/lightning_loop.py"


def step_of(checkpoint: str | None) -> int:
    assert checkpoint is not None
    step: int = torch.load(checkpoint, weights_only=False)["global_step"]
    return step


def test_no_step_is_lost_when_one_rank_is_told_to_end(tmp_path: Path) -> None:
    env = {"SPOTRUN_CHECKPOINT": str(tmp_path / "checkpoints")}
    told = told_to_end(SCRIPT, 1, after=10, folder=tmp_path / "first", env=env)
    at = step_of(newest_checkpoint(tmp_path / "checkpoints"))
    assert at == told.step, "the last step that was made is the one that was saved"
    assert told.total == 100_000
    assert "loss" in {one.name for one in told.metrics}
    told = gone_on(SCRIPT, at + 4, folder=tmp_path / "second", env=env)
    assert told.step == at + 4


def test_the_newest_whole_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "nothing") is None
    torch.save({"a": 1}, tmp_path / "last.ckpt")
    (tmp_path / "deeper").mkdir()
    torch.save({"a": 1}, tmp_path / "deeper" / "step=5.ckpt")
    (tmp_path / "cut.ckpt").write_bytes((tmp_path / "last.ckpt").read_bytes()[:-30])
    assert newest_checkpoint(str(tmp_path)) == str(tmp_path / "deeper" / "step=5.ckpt")


def test_the_size_is_that_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert size_of_world() == {}
    monkeypatch.setenv("GROUP_WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert size_of_world() == {"num_nodes": 3, "devices": 8}


def test_a_checkpoint_that_is_a_folder_gives_way_too(tmp_path: Path) -> None:
    def saved(path: Path) -> None:
        path.mkdir()
        (path / "meta.pt").write_bytes(b"")

    trainer: Any = SimpleNamespace(save_checkpoint=saved, is_global_zero=True)
    callback = SpotrunCallback(tmp_path)
    saved(tmp_path / "before-change-7.ckpt")
    callback._save(trainer)
    assert [one.name for one in tmp_path.iterdir()] == ["before-change-0.ckpt"]
