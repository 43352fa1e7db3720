"""Workers of different speeds: faster ones get more microbatches, and nothing else changes.

Time is played: a microbatch moves the clock that speeds are measured by, so a busy machine changes
nothing (`bench/uneven.py` has workers that do take longer). In deterministic mode equal bits prove
that each sample was used once, in the right step, however it was dealt.
"""

import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spotrun.wire import How
from spotrun_trainer.run import Run
from spotrun_trainer.telemetry.speeds import HostStopwatch
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.elastic import PATIENCE_SECONDS, Jobs, die
from tests.unit.trainer.run.fully_sharded import FullySharded, train_fully_sharded
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.sharded import Sharded, train_part
from tests.unit.trainer.run.test_worlds import undisturbed


def worker() -> str:
    """The name of this worker; its rank where it has none."""
    return os.environ.get("SPOTRUN_WORKER") or os.environ["RANK"]


class Clock:
    """The clock of a process."""

    now = 0.0

    @classmethod
    def read(cls) -> float:
        """Return the time that was played so far."""
        return cls.now


@dataclass(frozen=True)
class Slow:
    """Some workers take twice as long for a microbatch."""

    workers: str

    def __call__(self, run: Run, _step: int, count: int) -> None:
        assert run._loop is not None
        run._loop._speeds._stopwatch = PLAYED
        if count >= 0:
            Clock.now += 2.0 if worker() in self.workers else 1.0


@dataclass(frozen=True)
class SlowAndLost:
    """One of the slow workers dies in a step, and in a later one the others wait to be let go."""

    slow: Slow
    dies: tuple[str, int]
    waits: tuple[Path, int]

    def __call__(self, run: Run, step: int, count: int) -> None:
        self.slow(run, step, count)
        if (worker(), step) == self.dies and count == 1:
            die()
        folder, at = self.waits
        if step == at and not (folder / "go").exists():
            (folder / f"held-{worker()}").touch()
            until = time.monotonic() + PATIENCE_SECONDS
            while not (folder / "go").exists():
                assert time.monotonic() < until
                time.sleep(0.005)


PLAYED = HostStopwatch(Clock.read)
PLAN = Plan(
    total=16,
    global_batch=32,
    deterministic=True,
    with_batch_norm=True,
    with_dropout=True,
    clip=0.5,
    balance="measured",
    nuisance=Slow("2"),
)


def dealings(said: str) -> list[list[int]]:
    """How microbatches were dealt, change by change, as the first process says."""
    return [
        [int(number) for number in found.split(", ")]
        for found in re.findall(r"dealt by speed: ([\d, ]+) \(", said)
    ]


def test_a_slow_worker_gets_less_and_the_bits_stay() -> None:
    ended = run_world(3, train, PLAN)

    assert [one.error for one in ended] == [""] * 3, ended[0].said
    assert dealings(ended[0].said) == [[7, 6, 3]]  # instead of 6, 5, 5
    expected = undisturbed(PLAN)
    assert [one.value.digest for one in ended] == [expected.digest] * 3
    assert [one.value.losses for one in ended] == [expected.losses] * 3


def test_with_sums_in_any_order_it_is_the_same_within_rounding() -> None:
    plan = replace(PLAN, deterministic=False, with_dropout=False, global_batch=24)

    ended = run_world(3, train, plan)

    assert [one.error for one in ended] == [""] * 3, ended[0].said
    assert dealings(ended[0].said) == [[5, 5, 2]]
    assert len({one.value.digest for one in ended}) == 1
    assert ended[0].value.losses == pytest.approx(undisturbed(plan).losses, abs=1e-4)


def test_nothing_is_dealt_anew_unless_it_is_asked_for() -> None:
    ended = run_world(2, train, replace(PLAN, balance="even", total=9, nuisance=Slow("1")))

    assert [one.error for one in ended] == [""] * 2, ended[0].said
    assert dealings(ended[0].said) == []


def test_a_slow_worker_is_lost_and_another_one_joins(jobs: Jobs, tmp_path: Path) -> None:
    nuisance = SlowAndLost(Slow("cd"), dies=("c", 14), waits=(tmp_path, 18))
    plan = replace(PLAN, total=36, nuisance=nuisance)
    job = jobs.start(train, plan, workers="abc")
    job.until_dead("c")
    job.publish(How.ABORT, "a", "b")
    job.until(lambda: all((tmp_path / f"held-{one}").exists() for one in "ab"))
    job.publish(How.BOUNDARY, "a", "b", "d", switch=False)
    job.start("d")
    job.until(lambda: job.progress("d").ready)
    job.switch()
    (tmp_path / "go").touch()

    ended = job.ended("a", "b", "d")

    assert [one.error for one in ended] == [""] * 3, ended[0].said
    expected = undisturbed(plan)
    for one in ended:
        assert one.value.digest == expected.digest
        assert one.value.losses == expected.losses[-len(one.value.losses) :]
    assert dealings(ended[0].said) == [[7, 6, 3], [7, 6, 3]]


def test_copies_that_torch_shards_get_microbatches_by_their_slowest_process() -> None:
    plan = FullySharded(total=16, global_batch=48, nuisance=Slow("3"), balance="measured")

    ended = run_world(4, train_fully_sharded, plan)

    assert [one.error for one in ended] == [""] * 4, ended[0].said
    assert dealings(ended[0].said) == [[8, 4]]  # of each of the two processes of a copy
    one_process = replace(plan, shard=1, nuisance=None)
    alone: Trained = run_alone(train_fully_sharded, one_process).value
    assert ended[0].value.losses == pytest.approx(alone.losses, abs=1e-4)


def test_copies_that_the_script_divides_keep_their_bits() -> None:
    plan = Sharded(total=12, global_batch=32, nuisance=Slow("2"), balance="measured")

    ended = run_world(4, train_part, plan)

    assert [one.error for one in ended] == [""] * 4, ended[0].said
    assert dealings(ended[0].said) == [[11, 5]]
    evenly = run_world(2, train_part, replace(plan, balance="even", nuisance=None))
    expected = [one.value.digest for one in evenly]
    assert [one.value.digest for one in ended] == expected * 2


def test_a_value_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ValueError, match='give "even" or "measured"'):
        Run(balance="auto")  # type: ignore[arg-type]
