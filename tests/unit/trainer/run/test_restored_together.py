"""Processes that read a checkpoint together: each file once, and a lost one is not waited for."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spotrun.wire import How
from spotrun_trainer.checkpoint.format.manifest import data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading import together
from spotrun_trainer.checkpoint.format.reading.together import Together
from spotrun_trainer.checkpoint.places.directory import Place
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.test_worlds import assert_undisturbed, undisturbed

SAVED = "step-3.g0"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """To go on with what two processes have saved after three steps of six."""
    plan = Plan(total=6, deterministic=True, checkpoint=str(tmp_path / "checkpoints"))
    saved = run_world(2, train, replace(plan, total=3))
    assert [one.error for one in saved] == ["", ""]
    return plan


def train_and_count(plan: Plan) -> tuple[Trained, list[str]]:
    """Restore in shares of any size; return which data files were opened here."""
    together.SHARE_BYTES = 0
    opened, found = Place.open, list[str]()

    def count(place: Place, name: Name, file: str) -> int:
        found.append(file)
        return opened(place, name, file)

    Place.open = count  # type: ignore[method-assign,assignment]
    return train(plan), [file for file in found if file.endswith("safetensors")]


def test_each_file_is_read_by_one_of_them_and_all_go_on_alike(plan: Plan) -> None:
    expected = undisturbed(plan)
    ended = run_world(3, train_and_count, plan)
    for one in ended:
        assert one.error == "", one.said
        assert expected.losses[3:] == one.value[0].losses
    # Opened for its length, and to be read.
    assert [one.value[1] for one in ended] == [[data_file(0)] * 2, [data_file(1)] * 2, []]


def train_told_amid_the_exchange(plan: Plan, tell: Callable[[], None]) -> Trained:
    together.SHARE_BYTES, fill = 0, Together.fill

    def told(readers: Together, *given: object) -> None:
        Together.fill = fill  # type: ignore[method-assign]
        tell()
        fill(readers, *given)  # type: ignore[arg-type]

    Together.fill = told  # type: ignore[method-assign,assignment]
    return train(plan)


@dataclass(frozen=True)
class DieAs:
    worker: str

    def __call__(self) -> None:
        if this_is(self.worker):
            die()


@pytest.mark.parametrize("worker", ["a", "c"])
def test_the_others_read_anew_in_the_next_world_what_a_lost_one_did_not_send(
    worker: str, plan: Plan, jobs: Jobs
) -> None:
    job = jobs.start(
        train_told_amid_the_exchange, plan, DieAs(worker), workers="abc", restore=SAVED
    )
    job.until_dead(worker)
    survivors = sorted({"a", "b", "c"} - {worker})
    job.publish(How.ABORT, *survivors)
    assert_undisturbed(plan, job, *survivors)
    assert [one.exit_code for one in job.ended(worker)] == [-signal.SIGKILL]
