"""Failed writes: the operator waits and repeats them, decides again, or tells the user."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS
from spotrun.api.names import Reason
from spotrun.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from spotrun.state.snapshot import Refusal

SOON_SECONDS = 0.05
"""The time that a cache needs to show the write of another client. Kubernetes' own controllers wait
as long."""
_TERMINATING = "NamespaceTerminating"
_OVER_QUOTA = "exceeded quota: "
_RESTRICTED = 'violates PodSecurity "restricted'


@dataclass(frozen=True)
class Trouble:
    """The reason why an action is not done; at least one of these fields is set."""

    refusal: Refusal | None = None  # Kubernetes' own words, for the user
    failure: KubeError | None = None  # not caused by this job: try again after a pause
    wake_after_seconds: float | None = None  # decide again then: objects have changed
    is_terminating: bool = False  # the namespace is being deleted, and the job with it

    @property
    def stops_creations(self) -> bool:
        """Whether the next worker's creation would fail in the same way."""
        return self.refusal is None or self.refusal.reason != Reason.NAME_TAKEN


def on_creation(error: KubeError) -> Trouble:
    """Return the trouble of a failed creation."""
    if is_terminating(error):
        return Trouble(is_terminating=True)
    if isinstance(error, (Forbidden, Invalid)):
        return Trouble(refusal=_refusal(error))
    return on_write(error)


def on_write(error: KubeError) -> Trouble:
    """Return the trouble of a failed change."""
    if isinstance(error, Conflict):
        return Trouble(wake_after_seconds=SOON_SECONDS)
    return Trouble(failure=error)


def on_removal(error: KubeError) -> Trouble | None:
    """Return the trouble of a failed deletion; None if the object was gone already."""
    return None if isinstance(error, NotFound) else on_write(error)


def over_quota(error: KubeError) -> str | None:
    """Return a quota's message without the object's name; None where no quota refuses.

    Without the name, all pods that one quota refuses have the same message.
    """
    _, begins, which = error.message.partition(_OVER_QUOTA)
    if not isinstance(error, Forbidden) or not begins:
        return None
    return f"{begins}{which}"[:MAX_DETAIL_CHARS]


def _refusal(error: KubeError) -> Refusal:
    if (words := over_quota(error)) is not None:
        return Refusal(Reason.QUOTA_EXCEEDED.value, words)
    return Refusal(Reason.TEMPLATE_REFUSED.value, error.message[:MAX_DETAIL_CHARS])


def is_terminating(error: KubeError) -> bool:
    """Whether nothing can be created because the namespace is being deleted."""
    return isinstance(error, Forbidden) and any(c.reason == _TERMINATING for c in error.causes)


def wants_restricted(error: KubeError) -> bool:
    """Whether the namespace accepts only pods of Pod Security's level `restricted`."""
    return isinstance(error, Forbidden) and _RESTRICTED in error.message


async def all_troubles(*writes: Awaitable[Trouble | None]) -> list[Trouble]:
    """Run writes concurrently and return the troubles of those that failed."""
    return [trouble for trouble in await asyncio.gather(*writes) if trouble is not None]
