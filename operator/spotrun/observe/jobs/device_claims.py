"""Devices that the container that trains gets by dynamic resource allocation (DRA), counted.

A claim is read by name when a job needs it, and never watched: the request of a
ResourceClaimTemplate is immutable, only the template can be replaced by another one. So a reading
is kept for long if workers were created with it, and is repeated before the first workers are
created.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.errors import Forbidden, KubeError, NotFound
from spotrun.kube.lru_map import LruMap
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.template_defaults import num_gpus
from spotrun.state.job_state import JobState
from spotrun.state.view import cannot_go_on

log = logging.getLogger(__name__)

TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates")
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims")
_KINDS = {TEMPLATES: "ResourceClaimTemplate", CLAIMS: "ResourceClaim"}

KEPT_SECONDS = 600.0
DOUBTED_SECONDS = 10.0
"""The pause before a claim is read again if no workers were created with it: it may be created or
replaced."""
MOST_CLAIMS = 10_000
MOST_OF_A_JOB = 16

_EXACT = "ExactCount"
_NOT_SERVED = (
    "the API server does not serve resource.k8s.io/v1, which Kubernetes 1.34 and newer have"
)


@dataclass(frozen=True)
class DeviceClaim:
    """One entry in the resources.claims of the container that trains."""

    kind: Resource
    key: Key
    request: str = ""  # of the claim; "": all of them

    @property
    def title(self) -> str:
        """Return the claim's name for messages."""
        return f"{_KINDS[self.kind]} {self.key.name}"


@dataclass(frozen=True)
class DeviceClaims:
    """The claims of a job for the container that trains."""

    claims: tuple[DeviceClaim, ...] = ()
    processes: int | None = None  # set by the user; then only the price depends on the devices
    is_for_several: bool = False  # for more than one worker
    is_on_pods: bool = False  # pods state the devices of each worker, the next ones included


@dataclass(frozen=True)
class Devices:
    """The known number of devices that each worker claims."""

    count: int = 0
    why_unknown: str = ""  # why they could not be counted


NO_DEVICE_CLAIMS, NO_DEVICES = DeviceClaims(), Devices()


def device_claims_of(spec: TrainingJobSpec, status: JobState, namespace: str) -> DeviceClaims:
    """Return the claims to be counted for a job; none if its limits already give the GPUs."""
    if cannot_go_on(spec, status) or num_gpus(spec.workers.template):
        return NO_DEVICE_CLAIMS
    found = tuple(_in_template(spec, namespace))[:MOST_OF_A_JOB]
    return DeviceClaims(found, spec.workers.processes, spec.workers.max > 1)


def _in_template(spec: TrainingJobSpec, namespace: str) -> Iterator[DeviceClaim]:
    """Yield the valid claims; Kubernetes refuses the others with the first pod."""
    pod = spec.workers.template.spec
    assert pod.trainer is not None, "the CRD's rules ensure it"
    listed = (pod.model_extra or {}).get("resourceClaims") or ()
    named = {one["name"]: one for one in listed}
    resources = (pod.trainer.model_extra or {}).get("resources") or {}
    for entry in resources.get("claims") or ():
        claim, request = named.get(entry["name"], {}), entry.get("request") or ""
        if name := claim.get("resourceClaimTemplateName"):
            yield DeviceClaim(TEMPLATES, Key(namespace, name), request)
        elif name := claim.get("resourceClaimName"):
            yield DeviceClaim(CLAIMS, Key(namespace, name), request)


class _Exactly(msgspec.Struct, frozen=True, rename="camel"):
    device_class_name: str = ""
    allocation_mode: str = _EXACT
    count: int = 1
    admin_access: bool = False  # it gives access to devices that others use


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    exactly: _Exactly | None = None
    first_available: tuple[_Exactly, ...] = ()


class _Asked(msgspec.Struct, frozen=True):
    requests: tuple[_Request, ...] = ()


class _ClaimSpec(msgspec.Struct, frozen=True):
    devices: _Asked = _Asked()


class _Claim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class _Template(msgspec.Struct, frozen=True):
    spec: _Claim = _Claim()


@dataclass(frozen=True)
class _Known:
    read_at: float
    requests: tuple[_Request, ...] = ()
    why_unknown: str = ""


class DeviceCounts:
    """The readings of claims for devices, for all jobs together."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known = LruMap[tuple[Resource, Key], _Known](MOST_CLAIMS)

    async def look(self, claims: DeviceClaims) -> Devices:
        """Count the devices of a worker; if that is impossible, the user's `processes` count."""
        if not claims.claims:
            return NO_DEVICES
        kept_seconds = KEPT_SECONDS if claims.is_on_pods else DOUBTED_SECONDS
        known = [(one, await self._of(one, kept_seconds)) for one in claims.claims]
        devices = _counted(known, claims)
        if devices.why_unknown and claims.processes is not None:
            return Devices(claims.processes)
        return devices

    def wake_after_seconds(self, claims: DeviceClaims) -> float:
        """Return the seconds until the claims must be read again; infinity if never."""
        known = [
            (one, found)
            for one in claims.claims
            if (found := self._known.get((one.kind, one.key))) is not None
        ]
        is_needed = claims.processes is None and not claims.is_on_pods
        if not is_needed or not _counted(known, claims).why_unknown:
            return float("inf")
        read_at = min(found.read_at for _, found in known)
        return max(read_at + DOUBTED_SECONDS - self._clock(), 0.0)

    def forget(self, claims: DeviceClaims) -> None:
        """Forget a deleted job; another one of its name may have claims of the same names."""
        for one in claims.claims:
            self._known.pop((one.kind, one.key))

    async def _of(self, claim: DeviceClaim, kept_seconds: float) -> _Known:
        which = claim.kind, claim.key
        known = self._known.get(which)
        if known is None or self._clock() >= known.read_at + kept_seconds:
            known = await self._read(claim, known)
            self._known[which] = known
        return known

    async def _read(self, claim: DeviceClaim, before: _Known | None) -> _Known:
        """Read a claim; while the API server does not answer, the last count stays."""
        now, (namespace, name) = self._clock(), claim.key
        try:
            if claim.kind is TEMPLATES:
                made = await self._client.get(TEMPLATES, name, _Template, namespace=namespace)
                return _Known(now, made.spec.spec.devices.requests)
            found = await self._client.get(CLAIMS, name, _Claim, namespace=namespace)
            return _Known(now, found.spec.devices.requests)
        except NotFound as error:
            # If the API server does not know the kind, it says so in plain text, without a reason.
            is_served = error.reason == "NotFound"
            why = f"{claim.title} does not exist" if is_served else _NOT_SERVED
        except KubeError as error:
            if before is not None and before.requests and not isinstance(error, Forbidden):
                return replace(before, read_at=now)
            why = f"{claim.title} cannot be read: {error.message}"
        log.debug("%s/%s: %s", namespace, name, why)
        return _Known(now, why_unknown=why)


def _counted(known: Iterable[tuple[DeviceClaim, _Known]], claims: DeviceClaims) -> Devices:
    count, classes = 0, set[frozenset[str]]()
    for claim, found in known:
        if found.why_unknown:
            return Devices(why_unknown=found.why_unknown)
        if claim.kind is CLAIMS and claims.is_for_several:
            return Devices(
                why_unknown=f"{claim.title} is one claim for all workers; use a "
                "ResourceClaimTemplate, which creates one for each"
            )
        for request in found.requests:
            if claim.request in {"", request.name}:
                many = _of_request(request)
                if isinstance(many, str):
                    return Devices(why_unknown=f"request {request.name} of {claim.title} {many}")
                count += many
                classes.add(frozenset(one.device_class_name for one in _alternatives(request)))
    if len(classes) > 1:
        names = ", ".join(sorted(frozenset.union(*classes)))
        return Devices(
            why_unknown=f"the claimed devices are of several classes ({names}), and the operator "
            "cannot tell which of them the processes use"
        )
    return Devices(count)


def _of_request(request: _Request) -> int | str:
    """Return the number of devices of a request, or the reason why that is not known."""
    alternatives = _alternatives(request)
    if any(one.allocation_mode != _EXACT for one in alternatives):
        return f"asks for no exact number (allocationMode is not {_EXACT})"
    counts = {0 if one.admin_access else one.count for one in alternatives}
    if len(counts) != 1:
        return "takes the first available of alternatives with different counts"
    return counts.pop()


def _alternatives(request: _Request) -> tuple[_Exactly, ...]:
    return (request.exactly,) if request.exactly is not None else request.first_available
