"""Random steady jobs, and whether their size becomes stable."""

from collections.abc import Sequence
from random import Random

from bench.closed_loop import markets
from bench.closed_loop.curves import Curve, Load
from bench.closed_loop.loop import Resize, Task, play
from bench.closed_loop.ours import Spotrun, Wishes
from bench.closed_loop.scenes import BY_DEFAULT, Costs

_HOURS = 5.0  # measurements and rejected sizes count for six hours, then they are tried again


def play_random(seed: int, costs: Costs) -> int:
    """Return how often a steady job repeated an earlier change of size."""
    dice = Random(seed)  # noqa: S311 - the same jobs each time
    return oscillations(random_curve(dice), random_wishes(dice), costs, seed)


def oscillations(
    curve: Curve, wishes: Wishes, costs: Costs, seed: int, hours: float = _HOURS
) -> int:
    """Return the same for a given curve."""
    task = Task(Load.steady(curve), given_up_after_seconds=3600 * hours)
    changeover = costs.rules.changeover_seconds
    ours = Spotrun(task, wishes, costs.in_process_seconds, changeover)
    result = play(task, markets.on_demand(costs.rules), ours, costs.rules, seed)
    return num_repeated(result.resizes)


def num_repeated(resizes: Sequence[Resize]) -> int:
    """Return the number of changes that are equal to an earlier one."""
    return len(resizes) - len({(resize.before, resize.after) for resize in resizes})


def random_curve(dice: Random) -> Curve:
    """Return a curve, from unlimited scaling to a job for which two workers are too many."""
    microbatches = dice.choice((4, 8, 16, 32, 48, 64, 128, 1000))
    alone_seconds = dice.uniform(2.0, 40.0)  # the step of one worker
    return Curve(
        "random",
        microbatches=microbatches,
        microbatch_seconds=alone_seconds / microbatches,
        serial_seconds=alone_seconds * dice.choice((0.0, dice.uniform(0.0, 0.3))),
        ring_seconds=alone_seconds * dice.choice((0.0, dice.uniform(0.0, 0.3))),
        hop_seconds=dice.choice((0.0, dice.uniform(0.0, 0.05))),
        overlap=dice.uniform(0.0, 1.0),
        input_seconds=alone_seconds * dice.choice((0.0, dice.uniform(0.05, 1.0))),
    )


def random_wishes(dice: Random) -> Wishes:
    """Return the wishes of a user who sets nothing, or the value of an hour."""
    if dice.random() < 0.5:
        return BY_DEFAULT
    return Wishes(dice.choice((0.0, dice.uniform(1.0, 200.0))), dice.choice((0.0, 0.6)))
