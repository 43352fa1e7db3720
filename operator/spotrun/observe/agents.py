"""What the agents have said last, and when: volatile, for after a restart they say it again."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from spotrun.decide.snapshot import Agent
from spotrun.wire import Report

MOST_WORKERS = 16_384
"""Of one job; more are not remembered than a world could have."""


@dataclass
class _Heard:
    report: Report
    heard_at: float
    ready_at: float | None


class Agents:
    """The latest report of every worker; who reports was checked before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, dict[int, _Heard]] = {}

    def heard(self, uid: str, serial: int, report: Report) -> bool:
        """Take in a report; True if it is worth looking at the job again.

        How far the training is and how busy the workers are can wait for the next look.
        """
        now = self._clock()
        job = self._jobs.setdefault(uid, {})
        before = job.pop(serial, None)
        if before is None and len(job) >= MOST_WORKERS:
            del job[next(iter(job))]
        ready_at = before.ready_at if before is not None and before.report.ready else now
        # Taken out and put in again, the first one is the one that has been silent for longest.
        job[serial] = _Heard(report, now, ready_at if report.ready else None)
        return before is None or _news(before.report) != _news(report)

    def touch(self, uid: str, serial: int) -> None:
        """Take note of a sign of life: a poll that is held or comes in."""
        heard = self._jobs.get(uid, {}).get(serial)
        if heard is not None:
            heard.heard_at = self._clock()

    def facts(self, uid: str, serial: int) -> Agent | None:
        """What is known of a worker's agent; None until it has reported."""
        heard = self._jobs.get(uid, {}).get(serial)
        if heard is None:
            return None
        now = self._clock()
        return Agent(
            report=heard.report,
            heard_seconds=now - heard.heard_at,
            ready_seconds=None if heard.ready_at is None else now - heard.ready_at,
        )

    def keep(self, uid: str, serials: Collection[int]) -> None:
        """Forget all other workers of a job: a number whose pod is made again starts anew."""
        job = self._jobs.get(uid)
        if job is None or job.keys() <= set(serials):
            return
        self._jobs[uid] = {serial: heard for serial, heard in job.items() if serial in serials}

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._jobs.pop(uid, None)


def _news(report: Report) -> tuple[object, ...]:
    return (
        report.ready,
        report.arrived,
        report.failed,
        report.suspects,
        report.store_port,
        report.committed,
        report.completed,
        report.in_process,
    )
