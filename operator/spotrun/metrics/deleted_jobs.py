"""Jobs that were deleted while they cost something: their cost has to be read once more."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from spotrun.agents.answers import Published
from spotrun.kube.resource import Key

SHOWN_SECONDS = 300.0
"""A Prometheus looks every minute or sooner, and may miss a look or two."""
HANDOVER_SECONDS = 60.0
"""The same where another job has the name already, whose own figures wait for it."""
_MOST = 1_000  # who deletes more at once has what they cost in their last events


class DeletedJobs:
    """The last numbers of deleted jobs, kept for as long as it takes to read them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, tuple[float, Published]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, job: Published) -> None:
        """Keep a deleted job's last status for a while, though nobody may ever read it."""
        key = Key(job.namespace, job.name)
        self._kept.pop(key, None)
        self._kept[key] = (now := self._clock(), job)
        while len(self._kept) > _MOST or now - self._oldest() >= SHOWN_SECONDS:
            self._kept.popitem(last=False)

    def _oldest(self) -> float:
        kept_at, _ = next(iter(self._kept.values()))
        return kept_at

    def instead_of(self, jobs: Iterable[Published]) -> dict[Key, Published]:
        """Return the deleted jobs still shown, in place of others of their names."""
        now, present = self._clock(), {Key(job.namespace, job.name) for job in jobs}
        for key, (kept_at, _) in list(self._kept.items()):
            if now - kept_at >= (HANDOVER_SECONDS if key in present else SHOWN_SECONDS):
                del self._kept[key]
        return {key: job for key, (_, job) in self._kept.items()}
