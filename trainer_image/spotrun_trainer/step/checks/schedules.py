"""Checks for torch's ReduceLROnPlateau, which scripts step themselves: it needs a metric."""

from collections.abc import Iterable, Iterator, Sequence

from torch.optim.lr_scheduler import ReduceLROnPlateau

from spotrun_trainer.state.instances import instances_of


def check_schedules(schedules: Iterable[object]) -> None:
    """Raise ValueError for a schedule that a step's update cannot step."""
    if any(isinstance(one, ReduceLROnPlateau) for one in schedules):
        raise ValueError(
            "a ReduceLROnPlateau needs a metric, which step.update does not have: leave it out of "
            "schedule=, track it, and after the step call plateau.step(run.evaluate(...)) when "
            "run.every(...) is true"
        )


def check_tracked(things: Sequence[object]) -> None:
    """Raise ValueError for an untracked ReduceLROnPlateau of a tracked optimizer.

    Only the schedule refers to its optimizer, and the script passes it to no call of a step. A
    schedule that a tracked object holds is saved by that object.
    """
    known = {id(thing) for thing in things}
    held = {id(value) for thing in things for value in _held_by(thing)}
    for one in instances_of([ReduceLROnPlateau]):
        if id(one) not in known | held and id(getattr(one, "optimizer", None)) in known:
            raise ValueError(
                "a ReduceLROnPlateau of a tracked optimizer is not tracked itself, so a worker "
                "that joins, or a start from a checkpoint, would count its patience from zero: "
                "give it to run.track(...) before run.steps(...)"
            )


def _held_by(thing: object) -> Iterator[object]:
    """Yield attributes, and the items of those that are lists, as of a SequentialLR."""
    for value in getattr(thing, "__dict__", {}).values():
        yield value
        if type(value) in (list, tuple):
            yield from value
