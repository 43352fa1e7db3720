"""torch's ReduceLROnPlateau goes by a metric: the script steps it, where all have the same one."""

import gc
from collections.abc import Iterable, Iterator, Sequence

from torch.optim.lr_scheduler import ReduceLROnPlateau


def check_schedules(schedules: Iterable[object]) -> None:
    """Raise ValueError for one that a step's update cannot step."""
    if any(isinstance(one, ReduceLROnPlateau) for one in schedules):
        raise ValueError(
            "a ReduceLROnPlateau goes by a metric, which step.update does not have: leave it out "
            "of schedule=, track it, and after the step call plateau.step(run.evaluate(...)) "
            "where run.every(...) says so"
        )


def check_tracked(things: Sequence[object]) -> None:
    """Raise ValueError if one changes what is tracked and is not tracked itself.

    Only it knows of its optimizer, and the script does not give it to any call of a step. What a
    tracked object holds is that object's own to save.
    """
    known = {id(thing) for thing in things}
    held = {id(value) for thing in things for value in _held_by(thing)}
    for one in gc.get_objects():
        # Not isinstance: some objects import modules, or raise, when they are asked.
        if not issubclass(type(one), ReduceLROnPlateau) or id(one) in known | held:
            continue
        if id(getattr(one, "optimizer", None)) in known:
            raise ValueError(
                "a ReduceLROnPlateau of an optimizer that is tracked is not tracked itself, so a "
                "worker that joins, or a start from a checkpoint, would begin its patience anew: "
                "give it to run.track(...) before run.steps(...)"
            )


def _held_by(thing: object) -> Iterator[object]:
    """Attributes, and what is in those that are lists, as that of a SequentialLR."""
    for value in getattr(thing, "__dict__", {}).values():
        yield value
        if type(value) in (list, tuple):
            yield from value
