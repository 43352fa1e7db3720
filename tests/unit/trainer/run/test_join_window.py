"""A worker dies at each point of a join: the others have lost no step, and no bit, of the training.

The victim is the joining worker, or one of those who train. Which point it dies at is
said by a name, and is the same in every run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spotrun.wire import How
from spotrun_trainer.elastic import membership, process_group, state_transfer, store_rendezvous
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.loop import Loop
from spotrun_trainer.run import Run
from tests.unit.trainer.run.elastic import Jobs, die, this_is
from tests.unit.trainer.run.scripts import Plan, Trained, train
from tests.unit.trainer.run.test_joining_workers import AT, JOINING_WORKER, wait_for
from tests.unit.trainer.run.test_worlds import assert_undisturbed

MEMBER = "b"  # rank 2; the joining worker, which is rank 1, gets the state from it and from rank 0
WORLD = 2  # that the joining worker joins


class CountedThenGone:
    """A store in which the victim is counted as there, which is the last that it does."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add(self, key: str, amount: int) -> int:
        count: int = self._store.add(key, amount)
        if key == "arrived":
            die()
        return count


def before(owner: Any, name: str) -> None:
    setattr(owner, name, lambda *_args, **_kwargs: die())


def after(owner: Any, name: str) -> None:
    whole: Callable[..., object] = getattr(owner, name)

    def dying(*args: object, **kwargs: object) -> None:
        whole(*args, **kwargs)
        die()

    setattr(owner, name, dying)


def counted() -> None:
    connect = store_rendezvous._connect
    store_rendezvous._connect = lambda *args: CountedThenGone(connect(*args))  # type: ignore[assignment]


Deadly = Callable[[], None]
"""Lets this process die the next time that it comes to a point."""
MEETING: dict[str, Deadly] = {
    "told of the world": lambda: before(Context, "_meet"),
    "told that it enters": lambda: before(store_rendezvous, "_connect"),
    "counted as there": counted,
    "all have met": lambda: before(process_group, "_connect"),
    "connected": lambda: after(process_group, "_connect"),
    "formed": lambda: before(Membership, "_exchange"),
    "standings known": lambda: after(Membership, "_exchange"),
}
TRAINING: dict[str, Deadly] = {
    "before the commit": lambda: before(Membership, "commit"),
    "in the commit": lambda: after(membership, "_sum"),
    "committed": lambda: after(Membership, "commit"),
}
OF_JOINING_WORKER = MEETING | {
    "about to take": lambda: before(state_transfer, "receive_header"),
    "with the header": lambda: before(state_transfer, "receive"),
    "not yet loaded": lambda: before(state_transfer, "_unpack"),
    "with the state": lambda: after(state_transfer, "receive"),
    "arrived": lambda: after(Loop, "arrived"),
    **TRAINING,
}
OF_MEMBER = MEETING | {
    "about to give": lambda: before(state_transfer, "take_snapshot"),
    "amid giving": lambda: after(state_transfer, "_together"),
    "arrived": lambda: after(Loop, "arrived"),
    "given": lambda: after(Membership, "finish_giving"),
    **TRAINING,
}
HAS_THE_STATE = frozenset({"arrived", *TRAINING})


@dataclass(frozen=True)
class DieAt:
    """The victim dies at a point of the world that the joining worker joins."""

    victim: str
    point: str
    folder: Path

    def __call__(self, _run: Run, step: int, count: int) -> None:
        if this_is(self.victim):
            self._die_once_in_the_world()
        if not this_is(JOINING_WORKER) and (step, count) == (AT, 0):
            (self.folder / "held").touch()
            wait_for(self.folder / "go")

    def _die_once_in_the_world(self) -> None:
        wait = Context.wait_for_world

        def told(context: Context, *args: Any) -> None:
            wait(context, *args)
            if context.rank_info.world_number == WORLD:
                (OF_JOINING_WORKER | OF_MEMBER)[self.point]()

        if Context.wait_for_world.__name__ != told.__name__:
            Context.wait_for_world = told  # type: ignore[method-assign,assignment]


def lose_in_a_join(jobs: Jobs, function: Callable[[Plan], Trained], death: DieAt) -> None:
    """A worker joins two others, and one of the three dies."""
    plan = Plan(
        total=AT + 2,
        with_batch_norm=True,
        with_dropout=True,
        deterministic=True,
        nuisance=death,
    )
    job = jobs.start(function, plan, workers="ab")
    job.until((death.folder / "held").exists)
    job.bring_in(How.BOUNDARY, "a", JOINING_WORKER, "b")
    (death.folder / "go").touch()
    job.until_dead(death.victim)
    if death.victim == JOINING_WORKER:
        says_that_it_trains = job.progress(JOINING_WORKER).world_number == WORLD
        assert says_that_it_trains == (death.point in HAS_THE_STATE)
    survivors = [each for each in ("b", JOINING_WORKER, "a") if each != death.victim]
    job.publish(How.ABORT, *survivors)
    assert_undisturbed(plan, job, *survivors)


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        *((JOINING_WORKER, point) for point in OF_JOINING_WORKER),
        *((MEMBER, point) for point in OF_MEMBER),
    ],
)
def test_a_death_in_the_join_costs_the_others_nothing(
    jobs: Jobs, tmp_path: Path, victim: str, point: str
) -> None:
    lose_in_a_join(jobs, train, DieAt(victim, point, tmp_path))
