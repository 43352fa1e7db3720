"""Service-account tokens in files: real ones, bound to the pod and renewed in time."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from devcluster.client import ApiError, at
from devcluster.kubelet.runtime import Manifest
from devcluster.process.downward import Place
from devcluster.process.files import File, write
from devcluster.process.objects import Api

_log = logging.getLogger(__name__)

_RENEW_AT = 0.8  # of its life, as the kubelet does
_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class TokenFile:
    """A token that a volume asks for, and the file that holds it."""

    path: Path
    mode: int
    audience: str | None
    expiration_seconds: int


def renewal_delay_seconds(expires: datetime, now: datetime) -> float:
    """Return how long a token issued at `now` is used before the next one is requested."""
    return max(0.0, (expires - now).total_seconds() * _RENEW_AT)


async def issue(api: Api, place: Place, token: TokenFile) -> datetime:
    """Write a new token to its file; returns when it expires."""
    path = at("serviceaccounts", place.namespace, place.service_account, "token")
    answer = await api.create(path, _request(place, token))
    status = answer["status"]
    write(token.path, File(status["token"].encode(), token.mode))
    return datetime.fromisoformat(status["expirationTimestamp"])


async def keep_fresh(api: Api, place: Place, token: TokenFile, expires: datetime) -> None:
    """Renew a token until cancelled; retries while the API server does not answer."""
    while True:
        await asyncio.sleep(renewal_delay_seconds(expires, datetime.now(UTC)))
        expires = await _insist(api, place, token)


async def _insist(api: Api, place: Place, token: TokenFile) -> datetime:
    while True:
        try:
            return await issue(api, place, token)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            _log.warning("no new token for pod %s/%s: %s", place.namespace, place.name, error)
            await asyncio.sleep(_RETRY_SECONDS)


def _request(place: Place, token: TokenFile) -> Manifest:
    pod = {"apiVersion": "v1", "kind": "Pod", "name": place.name, "uid": place.uid}
    spec: Manifest = {"expirationSeconds": token.expiration_seconds, "boundObjectRef": pod}
    if token.audience:
        spec["audiences"] = [token.audience]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
