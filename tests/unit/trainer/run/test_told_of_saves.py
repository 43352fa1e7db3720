"""The votes of a step tell a process that a checkpoint is complete, so it looks for nothing."""

import os
from pathlib import Path

from spotrun_trainer.checkpoint import saver
from spotrun_trainer.checkpoint.saver import Saver
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.run.scripts import Plan, train

HOUR_SECONDS = 3600.0


def train_without_a_look(plan: Plan) -> list[str]:
    """Return the checkpoints that were noted before the last one, for which all wait."""
    noted, completed = list[str](), Saver.completed

    def pause(rank: int, size: int, *, is_awaited: bool) -> float:
        return 0.0 if rank == 0 or size == 1 or is_awaited else HOUR_SECONDS

    def note(one: Saver, name: str) -> None:
        completed(one, name)
        if os.environ["RANK"] != "0" and one._outcomes:
            noted.append(name)

    saver.pause_seconds = pause  # type: ignore[attr-defined]
    Saver.completed = note  # type: ignore[method-assign,assignment]
    train(plan)
    return noted


def test_the_vote_of_the_first_process_tells_the_others(tmp_path: Path) -> None:
    plan = Plan(total=150, checkpoint=str(tmp_path), every="1 steps")
    first, second = run_world(2, train_without_a_look, plan)
    assert (first.error, second.error) == ("", ""), second.said
    assert not first.value
    assert second.value
    assert all(name.startswith("step-") for name in second.value)
