"""The description of a hang: how long it lasts, and which ranks stopped first or last.

All ranks finish a step together, so healthy ranks also stop together. If a rank stopped clearly
before the others, look there. If a rank continued alone, for example in an evaluation of its own,
the others may wait for it. This is a hint and no proof: the first rank to stop may be the correct
one, which waits in a collective that the others never enter. A script with this error shows it on
the same rank each time, and a restart puts that rank on the same node. So no node is blamed for a
hang, even if it happens twice.
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
"""Agents report progress every 2 s, and it is half a second old by then: ignore smaller gaps."""
_CLEARLY_OF_STEPS_SECONDS = 1.0
"""Steps are reported twice a second, the last ones perhaps never: ignore smaller differences."""
_MOST_NAMES = 3


@dataclass(frozen=True)
class _Rank:
    """The last report of a worker that trains."""

    name: str
    seconds: float  # since its last sign of life
    step: int
    step_seconds: float


def standstill(view: View, status: JobState, seconds: float) -> str:
    """Describe a world in which no step was finished for this long."""
    step = status.progress.step
    reached = f" at step {step}" if step is not None else ""
    who = _who_differs(view, status)
    return f"no step was finished for {_length(seconds)}{reached}{f': {who}' if who else ''}"


def _who_differs(view: View, status: JobState) -> str:
    """Describe which ranks did not stop with the others; empty if that is not known."""
    ranks = _heard(view, status)
    if len(ranks) < 2:
        return ""
    # An agent that has just connected to a new leader reports everything again, so it is unknown
    # since when its step has not changed.
    heard_seconds = view.job.leading_seconds - NEW_LEADER_SECONDS
    is_timed = all(rank.seconds < heard_seconds for rank in ranks)
    said = (_by_time(ranks) if is_timed else "") or _by_step(ranks)
    is_all = is_timed and len(ranks) == len(training(status))
    return said or ("all stopped together" if is_all else "")


def _heard(view: View, status: JobState) -> list[_Rank]:
    """Return the ranks that report the present world; one for each worker."""
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
    return f"{_names(few)} continued{to} {length} longer than the others"


def _by_step(ranks: list[_Rank]) -> str:
    few, others, gap = _split(ranks, lambda rank: rank.step)
    if not gap or gap * max(rank.step_seconds for rank in ranks) < _CLEARLY_OF_STEPS_SECONDS:
        return ""
    return f"{_names(few)} stopped at step {_furthest(few)}, the others at {_furthest(others)}"


def _split(
    ranks: list[_Rank], key: Callable[[_Rank], float]
) -> tuple[list[_Rank], list[_Rank], float]:
    """Split the ranks at the widest gap: the smaller side, the other side, and the gap."""
    ordered = sorted(ranks, key=key)
    gaps = [key(after) - key(before) for before, after in pairwise(ordered)]
    cut = gaps.index(max(gaps)) + 1
    before, after = ordered[:cut], ordered[cut:]
    few, others = (before, after) if len(before) <= len(after) else (after, before)
    return few, others, max(gaps)


def _furthest(ranks: list[_Rank]) -> int:
    return max(rank.step for rank in ranks)


def _names(ranks: list[_Rank]) -> str:
    """Return the names; only the first ones if there are many."""
    more = len(ranks) - _MOST_NAMES
    named = ", ".join(rank.name for rank in ranks[:_MOST_NAMES])
    return f"{named} and {more} more" if more > 0 else named


def _length(seconds: float) -> str:
    return str(Duration.of(round(seconds)))
