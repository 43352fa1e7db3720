"""A loop with accelerate in two processes: each step is made once, whoever is told to end."""

import os
from pathlib import Path

import pytest

from spotrun_trainer.integrations.accelerate import Checkpoints
from spotrun_trainer.integrations.whole_checkpoint import newest_first
from tests.support.processes.torchrun_world import gone_on, told_to_end
from tests.support.processes.trainer_world import run_world

SCRIPT = Path(__file__).parents[4] / "examples/accelerate_loop.py"


def test_no_step_is_lost_when_one_rank_is_told_to_end(tmp_path: Path) -> None:
    saved = tmp_path / "checkpoints"
    env = {"SPOTRUN_CHECKPOINT": str(saved)}
    told = told_to_end(SCRIPT, 1, after=10, folder=tmp_path / "first", env=env)
    at = told.step
    assert newest_first(saved, "step-")[0].name == f"step-{at}", "the last step that was made"
    assert told.total == 100_000
    assert "loss" in {one.name for one in told.metrics}
    told = gone_on(SCRIPT, at + 4, folder=tmp_path / "second", env=env)
    assert told.step == at + 4


def test_checkpoints_are_found_by_their_steps(tmp_path: Path) -> None:
    for name in ("step-9", "step-10", "draft-11", "step-best"):
        (tmp_path / name).mkdir()
    assert [one.name for one in newest_first(tmp_path, "step-")] == ["step-10", "step-9"]


def made_in_a_process_that_trains_alone(folder: Path) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - in a process of its own
    from accelerate import Accelerator  # noqa: PLC0415

    dist.init_process_group("gloo")
    # By these an accelerate before 1.13 finds the others, also where it was not told of the CPU.
    del os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"]
    Checkpoints(Accelerator(), folder, total_steps=5)


def test_processes_that_would_train_each_alone_are_refused(tmp_path: Path) -> None:
    ended = run_world(2, made_in_a_process_that_trains_alone, tmp_path)
    assert "give Accelerator(cpu=True)" in ended[0].error


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"every_steps": 0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give whole numbers from 1 on"):
        Checkpoints(None, tmp_path, total_steps=5, **wrong)
