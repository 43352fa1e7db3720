"""Jobs that were deleted while they cost something: Prometheus must read their final cost."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from spotrun.agents.answers import Published
from spotrun.kube.resource import Key

SHOWN_SECONDS = 300.0
"""Prometheus scrapes every minute or more often, and may miss a scrape or two."""
HANDOVER_SECONDS = 60.0
"""The same if a new job has the name already: its own figures are shown only after that."""
_MOST = 1_000  # if more are deleted at once, the last events of the others have their cost


class DeletedJobs:
    """The last numbers of deleted jobs, kept until Prometheus should have read them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, tuple[float, Published]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, job: Published) -> None:
        """Keep a deleted job's last status for a while."""
        key = Key(job.namespace, job.name)
        self._kept.pop(key, None)
        self._kept[key] = (now := self._clock(), job)
        while len(self._kept) > _MOST or now - self._oldest() >= SHOWN_SECONDS:
            self._kept.popitem(last=False)

    def _oldest(self) -> float:
        kept_at, _ = next(iter(self._kept.values()))
        return kept_at

    def instead_of(self, jobs: Iterable[Published]) -> dict[Key, Published]:
        """Return the deleted jobs that are still shown, in place of new ones of their names."""
        now, present = self._clock(), {Key(job.namespace, job.name) for job in jobs}
        for key, (kept_at, _) in list(self._kept.items()):
            if now - kept_at >= (HANDOVER_SECONDS if key in present else SHOWN_SECONDS):
                del self._kept[key]
        return {key: job for key, (_, job) in self._kept.items()}
