"""A worker with a slow device or network, by what workers have measured before the first step.

Only workers on nodes of one type are compared. Of the network, less is concluded: one worker may be
in another zone than its neighbours. A worker whose steps were measured, in this world or an earlier
one, is not named: its steps say more. The others are still compared with it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import world_members
from spotrun.wire import Progress

SLOW = (1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Ratios of its time to that of the others; the message names the highest that is reached."""
SLOW_NETWORK = 2.0


@dataclass(frozen=True)
class _Kind:
    """A speed that workers measure."""

    read: Callable[[Progress], float | None]
    least: float  # how many times as fast as a slow worker the others are
    words: str
    unit: str


_KINDS = (
    _Kind(lambda told: told.flops, SLOW[0], "the devices of others computed", "FLOP/s"),
    _Kind(lambda told: told.link_bytes, SLOW_NETWORK, "the networks of others sent", "B/s"),
)


def slow_by_check(view: View, status: JobState) -> str | None:
    """Return who is slower than the others, and by how much; None if no worker is."""
    for kind in _KINDS:
        for same in _alike(view, status, kind):
            typical = same[len(same) // 2][0]
            for speed, worker in same:
                if speed > 0 and typical / speed >= kind.least and not _has_steps(worker):
                    return _words(kind, worker, speed, typical)
    return None


def level_of(ratio: float) -> str:
    """Return the highest level that a ratio reaches, so that a message seldom changes."""
    return f"{max(one for one in SLOW if one <= ratio):g}"


def where(worker: Worker) -> str:
    """Return a worker's name in a message."""
    return f"worker {worker.worker_id}" + (f" on node {worker.pod.node}" if worker.pod.node else "")


def low_clock(worker: Worker) -> str:
    """Return what its GPU's driver says of a low clock, as the end of a message."""
    said = worker.agent.report.low_clock if worker.agent is not None else None
    return f"; low clock of {said}" if said else ""


def _alike(view: View, status: JobState, kind: _Kind) -> Iterator[Sequence[tuple[float, Worker]]]:
    """Yield the speeds of workers that can be compared, the slowest first; two or more of each."""
    groups: defaultdict[str, list[tuple[float, Worker]]] = defaultdict(list)
    for worker in world_members(view, status):
        told = worker.agent.report.progress if worker.agent is not None else None
        speed = kind.read(told) if told is not None else None
        if speed is not None:
            type_of_node = worker.node.instance_type if worker.node is not None else ""
            groups[type_of_node].append((speed, worker))
    for same in groups.values():
        if len(same) > 1:
            yield sorted(same, key=lambda one: one[0])


def _has_steps(worker: Worker) -> bool:
    reading = worker.agent.reading if worker.agent is not None else None
    return reading is not None and reading.ever_enough


def _words(kind: _Kind, worker: Worker, speed: float, typical: float) -> str:
    return (
        f"{where(worker)} is slow: before the first step {kind.words} more than "
        f"{level_of(typical / speed)} times as fast ({typical / 1e9:.3g} against {speed / 1e9:.3g} "
        f"G{kind.unit}){low_clock(worker)}"
    )
