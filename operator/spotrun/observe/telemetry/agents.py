"""The latest reports of agents; not stored, because after a restart agents report again."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from spotrun.observe.telemetry.step_windows import Windows
from spotrun.state.snapshot import Agent
from spotrun.wire import Report

MOST_WORKERS = 16_384
"""The most workers of one job that are remembered; a world cannot have more."""


@dataclass
class _Record:
    heard_at: float
    report: Report | None = None  # None: no readable report yet
    ready_at: float | None = None
    arrived_at: float | None = None
    moved_at: float | None = None
    windows: Windows = field(default_factory=Windows)
    num_polls: int = 0  # polls that are open now
    is_old: bool = False


class Agents:
    """The latest report of every worker; its sender is already authenticated."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, dict[int, _Record]] = {}

    def take_report(self, uid: str, worker_id: int, report: Report) -> bool:
        """Store a report; return whether the operator should examine the job again now.

        Progress and utilization can wait for the next pass, except a job's first steps, their
        duration, and the moment when enough is measured in this world.
        """
        now = self._clock()
        record = self._remembered(uid, worker_id)
        before, record.report, record.heard_at, record.is_old = record.report, report, now, False
        if not report.ready:
            record.ready_at = None
        elif before is None or not before.ready:
            record.ready_at = now
        if before is None or before.arrived != report.arrived:
            record.arrived_at = now
        if report.progress is not None and (before is None or before.progress != report.progress):
            record.moved_at = now
        progress = report.progress
        is_measured = progress is not None and record.windows.take(progress, report.utilization)
        if is_measured or before is None or before.news != report.news:
            return True
        return _first_news(report) > _first_news(before)

    def touch(self, uid: str, worker_id: int) -> None:
        """Note a sign of life."""
        self._remembered(uid, worker_id).heard_at = self._clock()

    def hold(self, uid: str, worker_id: int) -> None:
        """Note an open poll, which is a sign of life as long as it is open."""
        self._remembered(uid, worker_id).num_polls += 1

    def let_go(self, uid: str, worker_id: int) -> None:
        """Note that a poll was answered or lost: the time of silence starts now."""
        record = self._jobs.get(uid, {}).get(worker_id)
        if record is not None:
            record.num_polls = max(record.num_polls - 1, 0)
            record.heard_at = self._clock()

    def too_old(self, uid: str, worker_id: int) -> bool:
        """Note that a report was refused for its wire version; return whether that is new."""
        record = self._remembered(uid, worker_id)
        was_old, record.is_old, record.heard_at = record.is_old, True, self._clock()
        return not was_old

    def facts(self, uid: str, worker_id: int) -> Agent | None:
        """Return the facts about a worker's agent; None until it has reported."""
        record = self._jobs.get(uid, {}).get(worker_id)
        if record is None or record.report is None:
            return None
        now = self._clock()
        return Agent(
            report=record.report,
            heard_seconds=0.0 if record.num_polls else now - record.heard_at,
            ready_seconds=_since(record.ready_at, now),
            arrived_seconds=_since(record.arrived_at, now),
            progress_seconds=_since(record.moved_at, now),
            reading=record.windows.reading() if record.report.progress is not None else None,
        )

    def speaks_old_wire(self, uid: str, worker_id: int) -> bool:
        """Whether a worker's last report was refused for its wire version."""
        record = self._jobs.get(uid, {}).get(worker_id)
        return record is not None and record.is_old

    def keep(self, uid: str, worker_ids: Collection[int]) -> None:
        """Forget all other workers of a job: if a worker's pod is created again, it starts anew."""
        job = self._jobs.get(uid)
        if job is None or job.keys() <= set(worker_ids):
            return
        self._jobs[uid] = {
            worker_id: record for worker_id, record in job.items() if worker_id in worker_ids
        }

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._jobs.pop(uid, None)

    def _remembered(self, uid: str, worker_id: int) -> _Record:
        job = self._jobs.setdefault(uid, {})
        record = job.get(worker_id)
        if record is None:
            if len(job) >= MOST_WORKERS:
                del job[next(iter(job))]
            record = job[worker_id] = _Record(self._clock())
        return record


def _first_news(report: Report) -> tuple[bool, bool]:
    """Return whether a report of a starting job has steps, and their duration."""
    progress = report.progress
    if progress is None:
        return False, False
    return progress.step > 0, progress.step_seconds is not None


def _since(moment: float | None, now: float) -> float | None:
    return None if moment is None else now - moment
