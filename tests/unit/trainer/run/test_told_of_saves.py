"""The votes of a step tell a process that a checkpoint is complete, so it looks for nothing."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotrun_trainer.checkpoint import saver
from spotrun_trainer.checkpoint.format.writer import Part, write_part
from spotrun_trainer.checkpoint.saver import Saved, Saver
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.state.flatten import Flat
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


@dataclass(frozen=True)
class Begun:
    """The steps whose checkpoints a process began, and those that became durable."""

    begun: list[str]
    durable: list[str]


def train_with_one_failed_write(plan: Plan) -> Begun:
    """The second process cannot write its first part; the loop goes on until others followed."""
    seen, begin, note = Begun([], []), Saver.save, Saving._note

    def noting_save(one: Saver, part: Part, flat: Flat) -> None:
        seen.begun.append(str(part.name))
        begin(one, part, flat)

    def noting_durable(saving: Saving, saved: Saved) -> None:
        seen.durable.append(saved.name)
        note(saving, saved)

    def failing_once(*arguments: Any) -> str:
        saver.write_part = write_part  # type: ignore[attr-defined]
        if os.environ["RANK"] == "1":
            raise OSError(errno.EIO, "the disk of this test is broken")
        return write_part(*arguments)

    Saver.save, Saving._note = noting_save, noting_durable  # type: ignore[method-assign,assignment]
    saver.write_part = failing_once  # type: ignore[attr-defined,assignment]
    train(plan)
    return seen


def test_a_part_that_could_not_be_written_holds_no_later_save_up(tmp_path: Path) -> None:
    plan = Plan(total=150, checkpoint=str(tmp_path), every="1 steps")
    for one in run_world(2, train_with_one_failed_write, plan):
        assert one.error == "", one.said
        first, *later = one.value.begun
        assert len(later) > 1  # the last one is saved in any case
        assert first not in one.value.durable
        assert len(one.value.durable) > 1
