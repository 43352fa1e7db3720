"""The scenes: loads in places, run by our policy with several wishes and by other policies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.closed_loop import markets
from bench.closed_loop.curves import AMDAHL, CACHED, COMMUNICATION, LINEAR, LONGER, STEADY, Load
from bench.closed_loop.loop import Result, Sizer, Task, play
from bench.closed_loop.markets import Place
from bench.closed_loop.ours import Spotrun, Wishes
from bench.closed_loop.peers import Elastic, Fixed, Hpa
from spotrun.simulate.scenario import Rules

BY_DEFAULT = Wishes()
FREE, WORTH, URGENT = (Wishes(hour_worth_usd=worth, min_efficiency=0.0) for worth in (0, 20, 80))
"""The three wishes: a user who sets the value of an hour sets no other limit of efficiency."""
_START_EVERY_TICKS = 300  # of a recorded market
ON_DEMAND, CAPACITY_STEPS = "on demand", "capacity steps"


@dataclass(frozen=True)
class Costs:
    """The costs of a change, and the rules of markets."""

    restart_seconds: float
    in_process_seconds: float
    rules: Rules


@dataclass(frozen=True)
class Scene:
    """A load in a place, and the wishes that users may have there."""

    kind: str  # "steady", "changing", "spot"
    load: Load
    place: str
    wishes: Sequence[Wishes]

    def the_place(self, repeat: int, rules: Rules) -> Place:
        """Return the same market for all policies; each repeat uses another part of a recording."""
        if self.place == ON_DEMAND:
            return markets.on_demand(rules)
        if self.place == CAPACITY_STEPS:
            return markets.steps(rules)
        return markets.spot(self.place, repeat * _START_EVERY_TICKS, rules)


def scenes() -> Iterator[Scene]:
    """Yield all scenes."""
    for curve in STEADY:
        yield Scene("steady", Load.steady(curve), ON_DEMAND, (FREE, WORTH, URGENT, BY_DEFAULT))
    for load in (CACHED, LONGER):
        yield Scene("changing", load, ON_DEMAND, (WORTH, URGENT, BY_DEFAULT))
    for curve in (LINEAR, AMDAHL):
        yield Scene("changing", Load.steady(curve), CAPACITY_STEPS, (WORTH, URGENT))
    for curve in (LINEAR, AMDAHL, COMMUNICATION):
        for zone in markets.ZONES:
            yield Scene("spot", Load.steady(curve), zone, (WORTH, URGENT, BY_DEFAULT))


@dataclass(frozen=True)
class Played:
    """One repeat of a scene."""

    scene: Scene
    ours: Mapping[Wishes, Result]
    peers: Mapping[str, Result]
    fixed: Mapping[int, Result]  # by size
    passing: Mapping[Wishes, int] = field(default_factory=dict)  # our trials of larger sizes


def play_scene(scene: Scene, repeat: int, costs: Costs) -> Played:
    """Run the same task in the same place with each policy."""
    task, place = Task(scene.load), scene.the_place(repeat, costs.rules)

    def run(sizer: Sizer) -> Result:
        return play(task, place, sizer, costs.rules, seed=repeat)

    stall = costs.restart_seconds
    ours = {wishes: _ours(task, wishes, costs) for wishes in scene.wishes}
    return Played(
        scene=scene,
        ours={wishes: run(sizer) for wishes, sizer in ours.items()},
        peers={
            "elastic_max": run(Elastic(task.most, stall)),
            "hpa": run(Hpa(task.least, task.most, stall)),
            "hpa_of_nvml": run(Hpa(task.least, task.most, stall, sees_waiting=True)),
        },
        fixed={size: run(Fixed(size, stall)) for size in task.sizes},
        passing={wishes: sizer.num_passing for wishes, sizer in ours.items()},
    )


def _ours(task: Task, wishes: Wishes, costs: Costs) -> Spotrun:
    changeover = costs.rules.changeover_seconds
    return Spotrun(task, wishes, costs.in_process_seconds, changeover)
