"""A standstill in words: for how long, and which ranks stopped first or went on longest.

All ranks finish a step together, so where all were well they also fall silent together. Who stopped
clearly before the others is where to look; who went on alone, as in an evaluation of its own, may
have what the others wait for. It is no verdict: the first to stop may be the one that does right,
and waits in a collective that the others never enter. A script that does so does it on the same
rank, and a restart puts that on the same node, so not even twice is a node to blame for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from spotrun.api.field_types.text_values import Duration
from spotrun.state.job_state import JobState
from spotrun.state.view import View
from spotrun.state.worker_outcomes import NEW_LEADER_SECONDS
from spotrun.state.world_members import training, world_number

CLEARLY_SECONDS = 10.0
"""Agents tell mere progress every 2 s, and what they tell is half a second old: less is nothing."""
_CLEARLY_OF_STEPS_SECONDS = 1.0
"""Steps are reported twice a second, the last ones perhaps never: fewer are no difference."""
_MOST_NAMES = 3


@dataclass(frozen=True)
class _Rank:
    """One who trains, as it was heard last."""

    name: str
    seconds: float  # since its last sign of life
    step: int
    step_seconds: float


def standstill(view: View, status: JobState, seconds: float) -> str:
    """Describe a world in which no step was finished for so long."""
    step = status.progress.step
    reached = f" at step {step}" if step is not None else ""
    who = _who_differs(view, status)
    return f"no step was finished for {_length(seconds)}{reached}{f': {who}' if who else ''}"


def _who_differs(view: View, status: JobState) -> str:
    """Say which of several ranks did not stop with the others; empty where that is not known."""
    ranks = _heard(view, status)
    if len(ranks) < 2:
        return ""
    # Who has just come over to a new leader says all anew, and since when it stands is not known.
    heard_seconds = view.job.leading_seconds - NEW_LEADER_SECONDS
    is_timed = all(rank.seconds < heard_seconds for rank in ranks)
    said = (_by_time(ranks) if is_timed else "") or _by_step(ranks)
    is_all = is_timed and len(ranks) == len(training(status))
    return said or ("all stopped together" if is_all else "")


def _heard(view: View, status: JobState) -> list[_Rank]:
    """Return the ranks that tell of the present world; one voice for a worker."""
    found, processes = [], view.job.processes
    for place, worker_id in enumerate(training(status)):
        worker = view.by_worker_id.get(worker_id)
        agent = worker.agent if worker is not None else None
        progress = agent.report.progress if agent is not None else None
        if worker is None or agent is None or agent.progress_seconds is None or progress is None:
            continue
        if progress.world_number == world_number(status):
            first, last = place * processes, (place + 1) * processes - 1
            ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
            name = f"{ranks} ({worker.pod.name} on node {worker.pod.node})"
            found.append(
                _Rank(name, agent.progress_seconds, progress.step, progress.step_seconds or 0.0)
            )
    return found


def _by_time(ranks: list[_Rank]) -> str:
    few, others, gap = _split(ranks, lambda rank: -rank.seconds)
    if gap < CLEARLY_SECONDS:
        return ""
    step, length = _furthest(few), _length(gap)
    differs = step != _furthest(others)
    if few[0].seconds > others[0].seconds:
        at = f" at step {step}," if differs else ""
        return f"{_names(few)} stopped{at} {length} before the others"
    to = f" to step {step}," if differs else ""
    return f"{_names(few)} went on{to} {length} longer than the others"


def _by_step(ranks: list[_Rank]) -> str:
    few, others, gap = _split(ranks, lambda rank: rank.step)
    if not gap or gap * max(rank.step_seconds for rank in ranks) < _CLEARLY_OF_STEPS_SECONDS:
        return ""
    return f"{_names(few)} stopped at step {_furthest(few)}, the others at {_furthest(others)}"


def _split(
    ranks: list[_Rank], key: Callable[[_Rank], float]
) -> tuple[list[_Rank], list[_Rank], float]:
    """The fewer of those on both sides of the widest gap, the others, and how wide it is."""
    ordered = sorted(ranks, key=key)
    gaps = [key(after) - key(before) for before, after in pairwise(ordered)]
    cut = gaps.index(max(gaps)) + 1
    before, after = ordered[:cut], ordered[cut:]
    few, others = (before, after) if len(before) <= len(after) else (after, before)
    return few, others, max(gaps)


def _furthest(ranks: list[_Rank]) -> int:
    return max(rank.step for rank in ranks)


def _names(ranks: list[_Rank]) -> str:
    """The first of them, where they are many."""
    more = len(ranks) - _MOST_NAMES
    named = ", ".join(rank.name for rank in ranks[:_MOST_NAMES])
    return f"{named} and {more} more" if more > 0 else named


def _length(seconds: float) -> str:
    return str(Duration.of(round(seconds)))
