"""Processes that are restarted go on at the newest step that any worker's memory has."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

import spotrun_trainer
from tests.support.processes.trainer_world import (
    PATIENCE_SECONDS,
    Ended,
    Process,
    run_alone,
    run_world,
)
from tests.unit.trainer.kept.trainings import (
    Worker,
    noted,
    on,
    train,
    train_and_die_amid_save,
    train_to_file,
)


def values(ended: list[Ended]) -> list[Any]:
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(x.said for x in ended)
    return [one.value for one in ended]


def run(*workers: Worker, total: int, **options: Any) -> list[Any]:
    """Train with one process on each of these workers."""
    return values(run_world(len(workers), _train, total, options, by_rank=on(*workers)))


def _train(total: int, options: dict[str, Any]) -> dict[str, Any]:
    return train(total, **options)


@pytest.fixture
def undisturbed() -> Callable[..., str]:
    def digest(total: int, width: int = 8) -> str:
        both = run(Worker(), Worker(), total=total, width=width)
        assert both[0]["digest"] == both[1]["digest"]
        found: str = both[0]["digest"]
        return found

    return digest


def test_restarted_processes_go_on_where_they_were(undisturbed: Callable[..., str]) -> None:
    a, b = Worker(), Worker()
    assert [one["began"] for one in run(a, b, total=4)] == [0, 0]
    assert (a.step, b.step) == (4, 4)
    after = run(a, b, total=9)
    assert [one["began"] for one in after] == [4, 4]
    assert {one["digest"] for one in after} == {undisturbed(9)}


@pytest.mark.parametrize("joining_worker", [0, 1])
def test_a_joining_worker_gets_the_state_from_a_peer(
    joining_worker: int, undisturbed: Callable[..., str]
) -> None:
    a, b = Worker(), Worker()
    run(a, b, total=5)
    new = Worker()
    after = run(*((new, a) if joining_worker == 0 else (b, new)), total=5)
    assert [one["began"] for one in after] == [5, 5]
    assert new.step == 5, "and keeps it at once"
    assert {one["digest"] for one in after} == {undisturbed(5)}


def test_other_numbers_of_processes_go_on_too() -> None:
    a, b, c = Worker(), Worker(), Worker()
    run(a, b, total=3)
    assert [one["began"] for one in run(b, total=4)] == [3]
    assert [one["began"] for one in run(c, b, a, total=5)] == [4, 4, 4]


def test_where_all_is_lost_the_training_begins_anew() -> None:
    run(Worker(), Worker(), total=3)
    assert [one["began"] for one in run(Worker(), Worker(), total=3)] == [0, 0]


def test_the_newest_of_memory_and_file_counts(tmp_path: Path) -> None:
    file, a, b = str(tmp_path / "file.pt"), Worker(), Worker()
    values(run_world(1, train_to_file, 4, file, by_rank=on(a)))
    alone = run(a, b, total=4, file=file)
    assert [one["began"] for one in alone] == [4, 4], "nothing was kept yet"
    run(a, b, total=6, file=file)
    assert [one["began"] for one in run(a, b, total=6, file=file)] == [6, 6]
    values(run_world(1, train_to_file, 8, file, by_rank=on(Worker())))
    last = run(a, b, total=8, file=file)
    assert [one["began"] for one in last] == [8, 8], "the file has gone on"
    assert len({one["digest"] for one in last}) == 1


def _with_a_file_on_rank_0(total: int, file: str) -> dict[str, Any]:
    return train(total, file=file if os.environ["RANK"] == "0" else "")


def test_a_file_that_one_rank_sees_is_enough(tmp_path: Path) -> None:
    file = str(tmp_path / "file.pt")
    values(run_world(1, train_to_file, 4, file, by_rank=on(Worker())))
    both = values(run_world(2, _with_a_file_on_rank_0, 4, file, by_rank=on(Worker(), Worker())))
    assert [one["began"] for one in both] == [4, 4]
    assert len({one["digest"] for one in both}) == 1


def test_a_state_that_was_half_copied_does_not_count(undisturbed: Callable[..., str]) -> None:
    worker = Worker()
    (ended,) = run_world(1, train_and_die_amid_save, 9, 6, by_rank=on(worker))
    assert ended.exit_code == -signal.SIGKILL
    assert worker.step == 5
    other = Worker()
    after = run(worker, other, total=7)
    assert [one["began"] for one in after] == [5, 5]


class World:
    """Two workers that train until one of them is cut off."""

    def __init__(self, workers: list[Worker], folder: Path, **options: Any) -> None:
        self.workers = workers
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        env = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "test",
        }
        options = {**options, "folder": str(folder)}
        self.processes = [
            Process(env | on(*workers)(rank), _train, 1_000_000, options) for rank in (0, 1)
        ]

    def until_at(self, step: int) -> None:
        """Wait until both have kept this step."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not all((worker.step or 0) >= step for worker in self.workers):
            assert time.monotonic() < until, [one.ended(0.0) for one in self.processes]
            time.sleep(0.001)

    def kill(self) -> None:
        for process in self.processes:
            process.signal(signal.SIGKILL)
        for process in self.processes:
            process.ended(time.monotonic() + PATIENCE_SECONDS)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.node.name)  # noqa: S311 - it is to be repeated


@pytest.mark.parametrize(
    ("width", "cuts"), [(8, 20), (1000, 5)], ids=["small", "copies most of the time"]
)
def test_power_cuts_at_random_moments_lose_no_step_of_the_survivor(
    width: int, cuts: int, tmp_path: Path, chance: random.Random, undisturbed: Callable[..., str]
) -> None:
    """Each time both processes are killed, and the memory of one worker is lost."""
    workers, at = [Worker(), Worker()], 0
    for cut in range(cuts):
        folder = tmp_path / str(cut)
        folder.mkdir()
        world = World(workers, folder, width=width)
        ahead = at + chance.randrange(1, 4)
        world.until_at(ahead)
        time.sleep(chance.random() * 0.03)  # the moment of the cut: any is as good
        world.kill()
        lost = chance.randrange(2)
        survivor = workers[1 - lost]
        workers[lost].end()
        kept = survivor.step
        assert kept is not None
        assert kept >= noted(folder, 1 - lost), "what was done is kept"
        at = kept
        workers[lost] = Worker()
    total = at + 2
    after = run(*workers, total=total, width=width)
    assert [one["began"] for one in after] == [at, at]
    assert {one["digest"] for one in after} == {undisturbed(total, width)}


def test_outside_of_a_job_nothing_is_kept_and_the_training_goes_on() -> None:
    ended = run_world(1, _train, 3, {})
    assert values(ended)[0]["step"] == 3
    assert "the state is not kept in memory, and the training continues without" in ended[0].said


def _keep_twice() -> None:
    spotrun_trainer.keep(model=nn.Linear(1, 1))
    spotrun_trainer.keep(model=nn.Linear(1, 1))


def _keep_too_early() -> None:
    spotrun_trainer.keep(model=nn.Linear(1, 1))


def test_one_call_takes_all_objects() -> None:
    assert "keep was called twice in a process" in run_alone(_keep_twice).error


def test_the_group_comes_first() -> None:
    ended = run_alone(_keep_too_early, env={"WORLD_SIZE": "2"})
    assert "call it after init_process_group" in ended.error


def test_a_state_of_another_script_is_refused_with_a_way_out() -> None:
    worker = Worker()
    run(worker, total=2)
    (ended,) = run_world(1, _train, 3, {"width": 16}, by_rank=on(worker))
    assert (
        "model/0.weight is float32[8, 8] in the saved state, float32[16, 16] in this script"
        in ended.error
    )
    assert "suspend the job, and resume it" in ended.error
