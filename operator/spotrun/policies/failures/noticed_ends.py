"""Failures of workers that only noticed a peer's failure: their message is true, but not the cause.

When a rank raises an error, its peers' collectives break: the peers end with "connection closed by
peer", and may report first. When a rank stops taking part, its peers end after a time-out, and the
rank itself has reported nothing.
"""

from collections.abc import Iterable

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.view import View
from spotrun.state.world_members import failed, training

_MOST_NAMES = 3


def true_cause(workers: Iterable[Worker]) -> Worker | None:
    """Return the first worker that failed by itself; None if no worker has reported this."""
    for worker in workers:
        reported = worker.agent.report.failed if worker.agent is not None else None
        if reported is not None and not reported.follows:
            return worker
    return None


def name_those_who_go_on(view: View, status: JobState, message: str) -> str:
    """Return the message of a worker that noticed, with the ranks that have not failed."""
    broken = {worker.worker_id for worker in failed(view, status)}
    names = [
        _name(view, place, worker_id)
        for place, worker_id in enumerate(training(status))
        if worker_id not in broken and worker_id in view.alive_worker_ids
    ]
    if not names:
        return message
    more = len(names) - _MOST_NAMES
    named = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    added = f"; {named} had not failed: look there for a rank that hangs"
    return message[: MAX_DETAIL_CHARS - len(added)] + added


def _name(view: View, place: int, worker_id: int) -> str:
    processes, worker = view.job.processes, view.by_worker_id[worker_id]
    first, last = place * processes, (place + 1) * processes - 1
    ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
    return f"{ranks} ({worker.pod.name} on node {worker.pod.node})"
