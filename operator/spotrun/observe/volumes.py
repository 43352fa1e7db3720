"""Whether several nodes can mount a claim: asked for by name when a job needs to know it.

Rarely, and never watched: a claim's access modes hardly change, and a cluster may have thousands.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from spotrun.kube.client import Client
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key, Resource

log = logging.getLogger(__name__)

CLAIMS = Resource("", "v1", "persistentvolumeclaims")

KEPT_SECONDS = 600.0
DOUBTED_SECONDS = 60.0
"""A claim that will not do, or could not be read, is looked at again so soon: somebody mends it."""
MOST_CLAIMS = 10_000

_SHARED = "ReadWriteMany"


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()


class _Claim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


@dataclass(frozen=True)
class _Known:
    is_shared: bool | None  # None: it could not be read
    until: float


class Volumes:
    """What is known of claims, for all jobs together."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[Key, _Known] = {}

    async def is_shared(self, claim: Key) -> bool | None:
        """Whether several nodes can mount a claim and write to it; None if that is not known."""
        known = self._known.get(claim)
        if known is None or self._clock() >= known.until:
            known = await self._read(claim)
            self._known.pop(claim, None)
            while len(self._known) >= MOST_CLAIMS:
                del self._known[next(iter(self._known))]
            self._known[claim] = known
        return known.is_shared

    def again_seconds(self, claim: Key) -> float:
        """When to ask again though nothing happens; infinity: the claim is as it should be."""
        known = self._known.get(claim)
        if known is None or known.is_shared:
            return float("inf")
        return max(known.until - self._clock(), 0.0)

    async def _read(self, claim: Key) -> _Known:
        try:
            found = await self._client.get(CLAIMS, claim.name, _Claim, namespace=claim.namespace)
        except KubeError as error:
            # Not there yet, or not ours to read: the pods' own conditions say what comes of it.
            log.debug("claim %s/%s cannot be read: %s", *claim, error)
            return _Known(None, self._clock() + DOUBTED_SECONDS)
        is_shared = _SHARED in found.spec.access_modes
        return _Known(is_shared, self._clock() + (KEPT_SECONDS if is_shared else DOUBTED_SECONDS))
