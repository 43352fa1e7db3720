"""Hugging Face's own Trainer in two processes: each step is made once, whoever is told to end."""

import json
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from spotrun_trainer.hooks.notice import Notice
from spotrun_trainer.integrations.step_boundary import StepBoundary
from spotrun_trainer.integrations.transformers import SpotrunCallback, newest_checkpoint
from tests.support.processes.torchrun_world import torchrun

SCRIPT = Path(__file__).parents[4] / "examples/hugging_face.py"


def state_of(checkpoint: str | None) -> dict[str, Any]:
    assert checkpoint is not None
    state: dict[str, Any] = json.loads((Path(checkpoint) / "trainer_state.json").read_text())
    return state


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"SPOTRUN_CHECKPOINT": str(tmp_path / "checkpoints")}


def test_no_step_is_lost_when_one_rank_is_told_to_end(tmp_path: Path, env: dict[str, str]) -> None:
    saved = Path(env["SPOTRUN_CHECKPOINT"])
    with torchrun(SCRIPT, "--steps=5000", folder=tmp_path / "first", env=env) as world:
        world.until(lambda: world.progress().step >= 10)
        os.kill(world.pid(1), signal.SIGTERM)
        assert world.ended()[0] == 0, world.said()
        told = world.progress()
    assert told.total == 5000
    assert told.metrics
    at = state_of(newest_checkpoint(saved))["global_step"]
    assert at == told.step, "the last step that was made is the one that was saved"

    with torchrun(SCRIPT, f"--steps={at + 4}", folder=tmp_path / "second", env=env) as world:
        assert world.ended()[0] == 0, world.said()
        assert world.progress().step == at + 4
    state = state_of(newest_checkpoint(saved))
    logged = [line["step"] for line in state["log_history"] if "loss" in line]
    assert (state["global_step"], logged) == (at + 4, list(range(5, at + 5, 5)))


def test_a_notice_is_a_save_and_no_end(tmp_path: Path, env: dict[str, str]) -> None:
    saved = Path(env["SPOTRUN_CHECKPOINT"])
    with torchrun(SCRIPT, "--steps=5000", folder=tmp_path / "first", env=env) as world:
        world.until(lambda: world.progress().step >= 5)
        world.tell_notice(60)
        world.until(lambda: newest_checkpoint(saved))
        at = world.progress().step
        world.until(lambda: world.progress().step > at + 20)
        assert len(list(saved.iterdir())) == 1, "once for a notice"


def test_the_newest_whole_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "nothing") is None
    for step, state in ((90, "{}"), (100, "{}"), (110, "{"), (120, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-best").mkdir()
    assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint-100")
    (tmp_path / "checkpoint-100" / "checkpoint-is-incomplete.txt").write_text("")
    assert newest_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-90")


def test_a_save_that_the_trainer_drops_is_asked_for_again(tmp_path: Path) -> None:
    looks = count(1)

    def from_the_fourth_step_on() -> Notice | None:
        return Notice(1.0, "node a") if next(looks) >= 4 else None

    seconds = count()
    callback = SpotrunCallback()
    callback._boundary = StepBoundary(
        env={"SPOTRUN_DIR": "/nowhere"},
        clock=lambda: float(next(seconds)),
        look_for_notice=from_the_fourth_step_on,
    )
    sample = {"input_ids": torch.arange(8), "labels": torch.arange(8)}
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=7,
        learning_rate=0.0,  # so the first evaluation, after step 2, stays the best
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="best",
        metric_for_best_model="loss",
        greater_is_better=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    data = [sample] * 8
    Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=[callback]).train()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-5"]
