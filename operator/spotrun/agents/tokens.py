"""Authentication: a projected token, checked by the API server, must be bound to exactly that pod.

The token's own claims are read first, so that an invalid one costs no review; but only a review can
accept a token.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from spotrun.api.names import TOKEN_AUDIENCE
from spotrun.http.errors import Refused
from spotrun.http.rate_limit import Bucket, Buckets, Clock, Rate
from spotrun.kube.errors import KubeError
from spotrun.kube.lru_map import LruMap
from spotrun.kube.resource import Resource
from spotrun.kube.rest.client import Client

log = logging.getLogger(__name__)

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews")
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"

TOKEN_BYTES = 4_096  # bound tokens have 1.0-1.4 kB
REVIEW_SECONDS = 5.0
QUEUE_SECONDS = 5.0
"""A review may wait this long for its turn; if it would take longer, the agent must try later."""
REFUSED_SECONDS = 10.0
"""A refusal is remembered this long: a new replica of the API server may not know a new key yet."""
_MOST_KNOWN = 50_000
_MOST_REFUSED = 10_000


@dataclass(frozen=True)
class Bearer:
    """The pod that a token was made for."""

    namespace: str
    pod: str
    pod_uid: str


@dataclass(frozen=True)
class Limits:
    """The rate of all reviews, and the rate of bad tokens from one address."""

    # 8,000 workers change to a new leader in 20 s; one review costs the API server 0.5 ms.
    reviews: Rate = field(default_factory=lambda: Rate(per_second=800, burst=800))
    refusals: Rate = field(default_factory=lambda: Rate(per_second=1, burst=20))


class ReviewUser(msgspec.Struct, frozen=True):
    """The user that a token belongs to."""

    username: str = ""
    extra: dict[str, tuple[str, ...]] | None = None


class ReviewStatus(msgspec.Struct, frozen=True):
    """The API server's verdict on a token."""

    authenticated: bool = False
    audiences: tuple[str, ...] | None = None
    user: ReviewUser = ReviewUser()
    error: str = ""


class TokenReview(msgspec.Struct, frozen=True):
    """The answer to a review."""

    status: ReviewStatus = ReviewStatus()


class _PodClaim(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _KubernetesClaim(msgspec.Struct, frozen=True):
    namespace: str = ""
    pod: _PodClaim = _PodClaim()


class _Claims(msgspec.Struct, frozen=True):
    exp: float
    aud: tuple[str, ...] = ()
    kubernetes: _KubernetesClaim = msgspec.field(default=_KubernetesClaim(), name="kubernetes.io")


Review = Callable[[str], Awaitable[ReviewStatus]]


def review_by(client: Client) -> Review:
    """Return a function that asks the API server."""

    async def review(token: str) -> ReviewStatus:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]},
        }
        return (await client.create(TOKEN_REVIEWS, body, TokenReview)).status

    return review


class Tokens:
    """Checks tokens, and remembers each until it expires.

    It does not notice that a pod is gone: the caller compares the pod's UID with the existing pods.
    """

    def __init__(
        self,
        review: Review,
        *,
        limits: Limits = Limits(),
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._review = review
        self._wall = wall
        self._sleep = sleep
        self._reviews = Bucket(limits.reviews, clock)
        self._refusals = Buckets(limits.refusals, clock)
        self._known = LruMap[bytes, tuple[Bearer, float]](_MOST_KNOWN)
        self._refused = LruMap[bytes, float](_MOST_REFUSED)  # until this time
        self._pending: dict[bytes, asyncio.Task[Bearer | None]] = {}

    async def check(self, token: str, *, namespace: str, pod: str, address: str) -> Bearer:
        """Return the pod of a token; raises Refused unless it belongs to exactly that pod."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        known = self._known.get(digest)
        if known is not None and known[1] > self._wall():
            return _of_that_pod(known[0], namespace, pod)
        claims = self._claims(token)
        _of_that_pod(_claimed(claims), namespace, pod)
        bearer = await self._ask(digest, token, claims.exp, address)
        return _of_that_pod(bearer, namespace, pod)

    def _claims(self, token: str) -> _Claims:
        claims = _read_claims(token)
        if claims is None:
            raise Refused(401, "this is not the projected token of a pod")
        if TOKEN_AUDIENCE not in claims.aud:
            raise Refused(401, f"the token's audience must be {TOKEN_AUDIENCE}")
        if claims.exp <= self._wall():
            raise Refused(401, "the token has expired: read its file again, the kubelet renews it")
        return claims

    async def _ask(self, digest: bytes, token: str, expires: float, address: str) -> Bearer:
        if (self._refused.get(digest) or 0.0) > self._wall():
            raise Refused(401, "the API server does not accept the token")
        task = self._pending.get(digest)
        if task is None:
            task = asyncio.create_task(self._review_once(digest, token, expires, address))
            self._pending[digest] = task
            task.add_done_callback(lambda _: self._pending.pop(digest, None))
        # Shielded: others may wait for the same review when this one's connection breaks.
        bearer = await asyncio.shield(task)
        if bearer is None:
            raise Refused(401, "the API server does not accept the token")
        return bearer

    async def _review_once(
        self, digest: bytes, token: str, expires: float, address: str
    ) -> Bearer | None:
        await self._turn(address)
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                status = await self._review(token)
        except (KubeError, TimeoutError) as error:
            log.warning("a token could not be reviewed: %s", str(error) or "no answer in time")
            raise Refused(
                503,
                "tokens cannot be checked now, because the API server does not answer: try again",
                retry_after_seconds=2,
            ) from error
        bearer = bearer_of(status)
        if bearer is None:
            self._refusals[address].take()
            self._refused[digest] = self._wall() + REFUSED_SECONDS
        else:
            self._known[digest] = (bearer, expires)
        return bearer

    async def _turn(self, address: str) -> None:
        """Wait for a review; an address with many bad tokens waits longest, and only for itself."""
        for_refusals = self._refusals[address].wait_seconds()
        wait = self._reviews.wait_seconds()
        if for_refusals > 0 or wait > QUEUE_SECONDS:
            raise Refused(
                429,
                "too many tokens are being checked: try again later",
                retry_after_seconds=max(for_refusals, wait),
            )
        self._reviews.take()
        if wait > 0:
            await self._sleep(wait)


def bearer_of(status: ReviewStatus) -> Bearer | None:
    """Return the pod that a reviewed token is bound to; None if the token is not valid here."""
    if not status.authenticated or TOKEN_AUDIENCE not in (status.audiences or ()):
        return None
    parts = status.user.username.split(":")
    extra = status.user.extra or {}
    pods, uids = extra.get(POD_NAME, ()), extra.get(POD_UID, ())
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"]:
        return None
    if len(pods) != 1 or len(uids) != 1:
        return None  # a token of a service account that is bound to no pod
    return Bearer(namespace=parts[2], pod=pods[0], pod_uid=uids[0])


def _of_that_pod(bearer: Bearer, namespace: str, pod: str) -> Bearer:
    if (bearer.namespace, bearer.pod) != (namespace, pod):
        raise Refused(403, f"the token does not belong to the pod {namespace}/{pod}")
    return bearer


def _claimed(claims: _Claims) -> Bearer:
    claim = claims.kubernetes
    return Bearer(claim.namespace, claim.pod.name, claim.pod.uid)


def _read_claims(token: str) -> _Claims | None:
    parts = token.split(".")
    if len(token) > TOKEN_BYTES or len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Claims)
    except (binascii.Error, ValueError, RecursionError):
        return None
