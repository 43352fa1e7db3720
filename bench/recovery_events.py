"""The events in trainings of bench/recovery.py, and how they are made to happen."""

import os
import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from spotrun_trainer.agent.processes.warm.pool import BEGUN_AHEAD
from spotrun_trainer.telemetry import timeline
from tests.integration.trainer.helpers import Place


class Kind(StrEnum):
    """The kinds of events."""

    NODE_LOST = "node_lost_stall_seconds"
    SILENT = "node_lost_silent_seconds"
    SHUT_DOWN = "node_shut_down_stall_seconds"
    WORKER_LOST = "worker_lost_stall_seconds"
    SHRINK = "shrink_stall_seconds"
    GROWTH = "growth_stall_seconds"
    RESTART = "node_lost_restart_seconds"
    SILENT_RESTART = "node_lost_silent_restart_seconds"

    @property
    def restarts(self) -> bool:
        """Whether the script is one that knows nothing of us, and is started anew."""
        return self in (Kind.RESTART, Kind.SILENT_RESTART)


@dataclass(frozen=True)
class Event:
    """An event that happens to a world of so many workers, at one rank."""

    kind: Kind
    workers: int
    rank: int = 0

    @property
    def workers_after(self) -> int:
        """The number of workers that train on after it."""
        return self.workers + (1 if self.kind is Kind.GROWTH else -1)


LAST_SIGNAL = {
    Kind.SILENT: signal.SIGSTOP,
    Kind.SILENT_RESTART: signal.SIGSTOP,
    Kind.SHUT_DOWN: signal.SIGTERM,
}
"""The signal that processes get on a node which Kubernetes does not hear any more."""
EVENTS = [
    *(Event(Kind.NODE_LOST, workers, rank) for workers, rank in ((2, 0), (2, 1), (3, 0), (3, 2))),
    Event(Kind.SILENT, 2),
    Event(Kind.SHUT_DOWN, 2),
    Event(Kind.WORKER_LOST, 3, 1),
    Event(Kind.SHRINK, 3),
    Event(Kind.GROWTH, 1),
    Event(Kind.GROWTH, 2),
    *(Event(Kind.RESTART, workers, rank) for workers, rank in ((2, 0), (2, 1), (3, 0), (3, 2))),
    Event(Kind.SILENT_RESTART, 2),
]


async def until_begun_ahead(place: Place, phases: Path, workers: int) -> None:
    """Wait until each worker has its next process ready."""

    async def look() -> bool:
        return len(begun_ahead(phases)) == workers

    await place.until(look)


def begun_ahead(phases: Path) -> set[str]:
    """The workers that have said so."""
    lines = [line for file in phases.glob("*.jsonl") for line in timeline.read(file)]
    return {line["worker"] for line in lines if line.get("mark") == BEGUN_AHEAD}


async def happen(place: Place, event: Event) -> None:
    match event.kind:
        case Kind.SHRINK | Kind.GROWTH:
            await place.patch_job({"workers": {"replicas": event.workers_after}})
        case Kind.WORKER_LOST:
            rank_of = {line["pid"]: line["rank"] for line in place.trace()[-20:]}
            pids = [pid for pid, rank in rank_of.items() if rank == event.rank]
            os.kill(pids[-1], signal.SIGKILL)
        case _:
            await take_away(place, event)


async def take_away(place: Place, event: Event) -> None:
    pod = await place.member(event.rank)
    if event.kind not in LAST_SIGNAL:
        await place.machine(pod).vanish(delete_node=True)
        return
    place.machine(pod).go_silent()
    for pid in place.processes(pod):
        os.kill(pid, LAST_SIGNAL[event.kind])
