"""What an answer means that is not a success: wait, look again, or tell the user."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from spotrun.api.names import Reason
from spotrun.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from spotrun.state.snapshot import Refusal

SOON_SECONDS = 0.05
"""For a cache to catch up with somebody else's write, as Kubernetes' own controllers wait."""
MOST_WORDS = 1_000
_TERMINATING = "NamespaceTerminating"
_OVER_QUOTA = "exceeded quota: "
_RESTRICTED = 'violates PodSecurity "restricted'


@dataclass(frozen=True)
class Trouble:
    """Why an action is not done; at least one of these is given."""

    refusal: Refusal | None = None  # Kubernetes' own words, for the user
    failure: KubeError | None = None  # nothing about this job: try again after a pause
    again_seconds: float | None = None  # look again, the world has moved on
    is_terminating: bool = False  # the namespace goes away, and the job with it

    @property
    def stops_creations(self) -> bool:
        """Whether the next worker would meet the same."""
        return self.refusal is None or self.refusal.reason != Reason.NAME_TAKEN


def on_creation(error: KubeError) -> Trouble:
    """An object of ours could not be made."""
    if is_terminating(error):
        return Trouble(is_terminating=True)
    if isinstance(error, (Forbidden, Invalid)):
        return Trouble(refusal=_refusal(error))
    return on_write(error)


def on_write(error: KubeError) -> Trouble:
    """Something of ours could not be changed."""
    if isinstance(error, Conflict):
        return Trouble(again_seconds=SOON_SECONDS)
    return Trouble(failure=error)


def on_removal(error: KubeError) -> Trouble | None:
    """Something could not be taken away; that it is gone already is no trouble."""
    return None if isinstance(error, NotFound) else on_write(error)


def _refusal(error: KubeError) -> Refusal:
    _, over_quota, which = error.message.partition(_OVER_QUOTA)
    if isinstance(error, Forbidden) and over_quota:
        # Without the pod's name: the same trouble has the same words.
        return Refusal(Reason.QUOTA_EXCEEDED.value, f"{over_quota}{which}"[:MOST_WORDS])
    return Refusal(Reason.TEMPLATE_REFUSED.value, error.message[:MOST_WORDS])


def is_terminating(error: KubeError) -> bool:
    """Whether nothing can be made any more, for the namespace is being deleted."""
    return isinstance(error, Forbidden) and any(c.reason == _TERMINATING for c in error.causes)


def wants_restricted(error: KubeError) -> bool:
    """Whether the namespace takes only pods of Pod Security's strictest level."""
    return isinstance(error, Forbidden) and _RESTRICTED in error.message


async def all_troubles(*writes: Awaitable[Trouble | None]) -> list[Trouble]:
    """Make writes side by side, and return what did not go well."""
    return [trouble for trouble in await asyncio.gather(*writes) if trouble is not None]
