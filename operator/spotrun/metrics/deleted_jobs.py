"""Jobs that were deleted while they cost something: their cost has to be read once more."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from spotrun.agents.answers import Published
from spotrun.kube.resource import Key

FAREWELL_SECONDS = 300.0
"""A Prometheus looks every minute or sooner, and may miss a look or two."""
HANDOVER_SECONDS = 60.0
"""The same where another job has the name already, whose own figures wait for it."""
_MOST = 1_000  # who deletes more at once has what they cost in their last events


class Farewells:
    """The last numbers of deleted jobs, kept for as long as it takes to read them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: OrderedDict[Key, tuple[float, Published]] = OrderedDict()

    def say(self, job: Published) -> None:
        """Keep a deleted job's last status for a while."""
        key = Key(job.namespace, job.name)
        self._said.pop(key, None)
        self._said[key] = (self._clock(), job)
        while len(self._said) > _MOST:
            self._said.popitem(last=False)

    def instead_of(self, jobs: Iterable[Published]) -> dict[Key, Published]:
        """Return the deleted jobs still shown, in place of others of their names."""
        now, there = self._clock(), {Key(job.namespace, job.name) for job in jobs}
        for key, (said_at, _) in list(self._said.items()):
            if now - said_at >= (HANDOVER_SECONDS if key in there else FAREWELL_SECONDS):
                del self._said[key]
        return {key: job for key, (_, job) in self._said.items()}
