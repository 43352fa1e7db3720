"""The figures of a demo, computed only from what was observed. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from math import inf

from demo.node_actions import Action, Done, Notice, PowerCut
from demo.scene import Scene, Step

Sighting = tuple[float, Step]

STALL_FACTOR = 4.0
"""A pause between two lines of the log is a stall if it is this many times the usual one, ..."""
STALL_SECONDS = 1.0
"""... and at least this long: the trainer prints a line every half a second, not every step."""


@dataclass(frozen=True)
class Stall:
    """A time in which the training made no step."""

    at_seconds: float
    seconds: float  # beyond the usual time between two lines


@dataclass(frozen=True)
class Loss:
    """The effect of one event on the training."""

    action: Action
    stalls: tuple[Stall, ...]
    steps_again: int

    @property
    def stalled_seconds(self) -> float:
        """The sum of all stalls after the event."""
        return sum(stall.seconds for stall in self.stalls)


@dataclass(frozen=True)
class Figures:
    """The figures of one demo."""

    job_seconds: float
    first_step_seconds: float | None
    last_step: int
    worlds: int
    losses: tuple[Loss, ...]
    steps_again: int


def figures(scene: Scene, steps: Sequence[Sighting], done: Sequence[Done]) -> Figures:
    """Compute the figures at the end."""
    stalls, repeats = find_stalls(steps), find_repeats(steps)
    events = [one for one in done if isinstance(one.action, Notice | PowerCut)]
    losses = []
    for event, after in zip_longest(events, events[1:]):
        begin, end = event.seconds, after.seconds if after else inf
        its_stalls = tuple(stall for stall in stalls if begin <= stall.at_seconds < end)
        its_repeats = sum(again for at, again in repeats if begin <= at < end)
        losses.append(Loss(event.action, its_stalls, its_repeats))
    return Figures(
        job_seconds=scene.seconds,
        first_step_seconds=steps[0][0] if steps else None,
        last_step=max((step.number for _, step in steps), default=0),
        worlds=scene.world,
        losses=tuple(losses),
        steps_again=sum(again for _, again in repeats),
    )


def find_stalls(steps: Sequence[Sighting]) -> list[Stall]:
    """Return the pauses between lines of the log that are much longer than usual, by their ends."""
    gaps = [(b, b - a) for (a, _), (b, _) in pairwise(steps)]
    usual = statistics.median(gap for _, gap in gaps) if gaps else 0.0
    least = max(STALL_FACTOR * usual, usual + STALL_SECONDS)
    return [Stall(end, gap - usual) for end, gap in gaps if gap >= least]


def find_repeats(steps: Sequence[Sighting]) -> list[tuple[float, int]]:
    """Return each time at which the training went back in its steps, and by how many."""
    return [
        (at, before.number - after.number + 1)
        for (_, before), (at, after) in pairwise(steps)
        if after.number <= before.number
    ]


def report(scene: Scene, shown: Figures) -> list[str]:
    """The summary as lines."""
    first = shown.first_step_seconds
    start = "" if first is None else f", the first step after {first:.0f} s"
    of = f" of {scene.total_steps}" if scene.total_steps else ""
    lines = [
        f"{scene.phase}: {scene.message}",
        f"  job         {shown.job_seconds:.0f} s from apply to its end{start}",
        f"  steps       {shown.last_step}{of}; {shown.steps_again} were lost and done again",
        f"  worlds      {shown.worlds}, after {_taken(scene.interruptions)} taken away",
        f"  checkpoint  {scene.checkpoint or 'the operator knows of none'}",
        *(f"  {_name(loss.action):<10}  {_effect(loss)}" for loss in shown.losses),
        f"  cost        {_cost(scene)}",
    ]
    return [*lines, "", *_HOW.splitlines()]


_HOW = """\
How it was measured: by watching the log of rank 0, which has a line every half a second. A stall is
a pause between two lines of more than 1 s beyond the usual and 4 times as long; steps were done
again if their numbers came a second time; this does not see those of the last half second."""


def _name(action: Action) -> str:
    return "notice" if isinstance(action, Notice) else "power cut"


def _effect(loss: Loss) -> str:
    if not loss.stalls:
        return f"no stall seen; {loss.steps_again} steps done again"
    each = " + ".join(f"{stall.seconds:.1f}" for stall in loss.stalls)
    total = f"{loss.stalled_seconds:.1f} s"
    stalled = total if len(loss.stalls) == 1 else f"{each} = {total}"
    return f"stalled {stalled}; {loss.steps_again} steps done again"


def _taken(workers: int) -> str:
    return "one worker was" if workers == 1 else f"{workers} workers were"


def _cost(scene: Scene) -> str:
    if scene.usd is None:
        return "not metered yet: this part of the operator is still being built"
    return f"${scene.usd} paid{_saved(scene.saved_usd)}, at made-up prices"


def _saved(usd: str | None) -> str:
    if not usd:
        return ""
    if usd.startswith("-"):
        return f", ${usd[1:]} more than the same useful work on demand"
    return f", ${usd} saved"
