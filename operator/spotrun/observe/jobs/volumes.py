"""Volume claims that workers mount: from how many nodes, and in which zones.

They are read by name when a job needs them, which is rare, and never watched: a claim hardly
changes, and a cluster may have thousands.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from spotrun.api.names import ZONE_LABELS
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.errors import KubeError
from spotrun.kube.lru_map import LruMap
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.state.job_state import JobState
from spotrun.state.view import cannot_go_on

log = logging.getLogger(__name__)

CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes")

KEPT_SECONDS = 600.0
DOUBTED_SECONDS = 60.0
"""The pause before a claim that is unsuitable, unbound or unreadable is read again."""
MOST_CLAIMS = 10_000
MOST_OF_A_JOB = 16
"""The most claims of a template that are read here; Kubernetes itself checks all of them."""

_SHARED = "ReadWriteMany"
_ZONE_KEYS = frozenset(
    {
        *ZONE_LABELS,
        # CSI drivers that have their own names for zones.
        "topology.ebs.csi.aws.com/zone",
        "topology.gke.io/zone",
        "topology.disk.csi.azure.com/zone",
    }
)


@dataclass(frozen=True)
class Claims:
    """The claims that every worker of a job mounts."""

    mounted: tuple[Key, ...] = ()
    shared: Key | None = None  # the one for checkpoints, if the job has several workers


@dataclass(frozen=True)
class Storage:
    """The known restrictions of a job's volumes."""

    is_shared: bool | None = None  # whether several nodes can mount `Claims.shared`
    zones: frozenset[str] | None = None  # in which all can be mounted; None: in any, or unknown


NO_CLAIMS, UNKNOWN = Claims(), Storage()


def claims_of(spec: TrainingJobSpec, status: JobState, namespace: str) -> Claims:
    """Return the claims that matter for a job; none if it gets no workers."""
    if cannot_go_on(spec, status):
        return NO_CLAIMS
    volume = spec.checkpoint.volume if spec.checkpoint is not None else None
    claim = volume.persistent_volume_claim if volume is not None else None
    ours = Key(namespace, claim.claim_name) if claim is not None else None
    named = [Key(namespace, name) for name in _in_template(spec)]
    mounted = tuple(dict.fromkeys([*([ours] if ours is not None else []), *named]))
    return Claims(mounted[:MOST_OF_A_JOB], ours if spec.workers.max > 1 else None)


def _in_template(spec: TrainingJobSpec) -> Iterable[str]:
    """Return the claims of the user's own volumes; Kubernetes has not checked them yet."""
    volumes = (spec.workers.template.spec.model_extra or {}).get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        name = claim.get("claimName") if isinstance(claim, dict) else None
        if isinstance(name, str) and name:
            yield name


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()
    volume_name: str = ""


class _Claim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class _Requirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Term(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_Requirement, ...] = ()


class _Terms(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: _Terms = _Terms()


class _VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity = _NodeAffinity()


class _Volume(msgspec.Struct, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


@dataclass(frozen=True)
class _Known:
    read_at: float
    is_shared: bool | None = None  # None: it could not be read
    is_bound: bool = False  # to a volume, so its zones no longer change
    zones: frozenset[str] | None = None


class Volumes:
    """The readings of claims, for all jobs together."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known = LruMap[Key, _Known](MOST_CLAIMS)

    async def look(self, claims: Claims) -> Storage:
        """Read the claims of a job; return their known restrictions."""
        known = {one: await self._of(one, shared=one == claims.shared) for one in claims.mounted}
        shared = known[claims.shared].is_shared if claims.shared is not None else None
        zones = [one.zones for one in known.values() if one.zones is not None]
        return Storage(shared, frozenset.intersection(*zones) if zones else None)

    def wake_after_seconds(self, claims: Claims) -> float:
        """Return the seconds until the claims must be read again; infinity if never."""
        known = self._known.get(claims.shared) if claims.shared is not None else None
        if known is None or known.is_shared:
            return float("inf")
        return max(known.read_at + DOUBTED_SECONDS - self._clock(), 0.0)

    async def _of(self, claim: Key, *, shared: bool) -> _Known:
        known = self._known.get(claim)
        if known is None or self._clock() >= known.read_at + _kept_seconds(known, shared=shared):
            known = await self._read(claim)
            self._known[claim] = known
        return known

    async def _read(self, claim: Key) -> _Known:
        now = self._clock()
        try:
            found = await self._client.get(CLAIMS, claim.name, _Claim, namespace=claim.namespace)
        except KubeError as error:
            # It does not exist yet, or may not be read: the pods' conditions show the result.
            log.debug("claim %s/%s cannot be read: %s", *claim, error)
            return _Known(now)
        is_shared, volume = _SHARED in found.spec.access_modes, found.spec.volume_name
        if not volume:
            return _Known(now, is_shared)
        try:
            zones = _zones(await self._client.get(VOLUMES, volume, _Volume))
        except KubeError as error:
            log.debug("volume %s cannot be read: %s", volume, error)
            zones = None
        return _Known(now, is_shared, is_bound=True, zones=zones)


def _kept_seconds(known: _Known, *, shared: bool) -> float:
    is_fine = known.is_bound and (bool(known.is_shared) or not shared)
    return KEPT_SECONDS if is_fine else DOUBTED_SECONDS


def _zones(volume: _Volume) -> frozenset[str] | None:
    """Return the zones where a volume can be mounted: one term must hold completely."""
    found: set[str] = set()
    for term in volume.spec.node_affinity.required.node_selector_terms:
        asked = [
            frozenset(one.values)
            for one in term.match_expressions
            if one.key in _ZONE_KEYS and one.operator == "In"
        ]
        if not asked:
            return None
        found |= frozenset.intersection(*asked)
    return frozenset(found) or None
