"""The serving certificate: in a Secret of the operator's own, or in mounted files."""

import asyncio
import base64
import binascii
import contextlib
import datetime
import logging
import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec

from spotrun.api.names import LABEL_MANAGED_BY, MANAGED_BY
from spotrun.http.certificates import (
    Certificates,
    Pair,
    Plan,
    describe,
    make_authority,
    plan_rotation,
    sign_serving,
    term,
)
from spotrun.kube.backoff import Backoff, log_level
from spotrun.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Retryable
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.client import Client

log = logging.getLogger(__name__)

SECRETS = Resource("", "v1", "secrets")
_ATTEMPTS = 5  # replicas that start together conflict; more conflicts have another cause
_KEY_BYTES = 32


class SecretObject(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a Secret that is used here."""

    metadata: Meta
    data: dict[str, str] | None = None


@dataclass(frozen=True)
class Identity:
    """The certificate that agents see, and the key from which worlds' secrets are derived."""

    bundle: str  # PEM of every authority that agents must trust: SPOTRUN_CA of new pods
    serving: Pair
    world_key: bytes = field(repr=False)


class Source(Protocol):
    """A source of identities; it is read regularly, because identities are renewed."""

    async def load(self) -> Identity:
        """Read it; renew it if the operator does that. Raises KubeError, OSError, ValueError."""


@dataclass(frozen=True)
class _Contents:
    authorities: tuple[Pair, ...]
    serving: Pair | None
    world_key: bytes = field(repr=False)


class OwnSecret:
    """An authority of the operator's own and its certificate, in a Secret of all replicas."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str = "spotrun-agents",
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._now = now or client.clock.now

    async def load(self) -> Identity:
        """Read the Secret; renew it if it is missing or old, unless another replica just did."""
        for _ in range(_ATTEMPTS):
            found = await self._read()
            contents = _read_contents(found.data or {}) if found is not None else None
            plan = plan_rotation(self._now(), _described(contents))
            if contents is not None and plan.is_empty:
                return _identity(contents)
            made = _carry_out(plan, contents, self._now())
            if await self._write(found, made):
                log.info("the Secret %s has new certificates", self._name)
                return _identity(made)
        raise Retryable(f"other clients keep changing the Secret {self._namespace}/{self._name}")

    async def _read(self) -> SecretObject | None:
        try:
            return await self._client.get(
                SECRETS, self._name, SecretObject, namespace=self._namespace
            )
        except NotFound:
            return None

    async def _write(self, found: SecretObject | None, contents: _Contents) -> bool:
        """Write the Secret; return whether no other replica was faster."""
        meta: dict[str, object] = {"name": self._name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}}
        data = _write_contents(contents)
        try:
            if found is None:
                present = {name: text for name, text in data.items() if text is not None}
                body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": present}
                await self._create(body)
            else:
                meta["resourceVersion"] = found.metadata.resource_version
                patch = {"metadata": meta, "data": data}
                await self._client.patch(
                    SECRETS, self._name, patch, SecretObject, namespace=self._namespace
                )
        except (AlreadyExists, Conflict, NotFound):
            return False
        return True

    async def _create(self, secret: Mapping[str, object]) -> None:
        try:
            await self._client.create(SECRETS, secret, SecretObject, namespace=self._namespace)
        except NotFound as error:
            raise Retryable(
                f"the operator's own namespace {self._namespace} does not exist: create it "
                f"(`kubectl create namespace {self._namespace}`), or name another with --namespace"
            ) from error


@dataclass(frozen=True)
class MountedFiles:
    """A certificate that another program renews; the worlds' key still comes from our Secret."""

    certificate: Path
    key: Path
    authorities: Path
    own: OwnSecret

    async def load(self) -> Identity:
        """Read the files as they are now."""
        identity = await self.own.load()
        serving = Pair(self.certificate.read_bytes(), self.key.read_bytes())
        return replace(identity, bundle=self.authorities.read_text(), serving=serving)


def server_context() -> ssl.SSLContext:
    """Return the TLS settings of agents' connections; `show` adds the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # connections last long; TLS sessions would only use memory
    return context


def show(context: ssl.SSLContext, pair: Pair) -> None:
    """Use this certificate from the next connection on; raises ValueError if it is not one."""
    with _file(pair.key + b"\n" + pair.certificate) as both:
        try:
            context.load_cert_chain(both)
        except ssl.SSLError as error:
            raise ValueError(f"the certificate and its key cannot be used: {error}") from error


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Write a temporary file, because ssl reads keys only from files."""
    if sys.platform == "linux":  # in memory: no key is on a disk, and no disk need be writable
        descriptor = os.memfd_create("tls")
        with os.fdopen(descriptor, "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def _described(contents: _Contents | None) -> Certificates:
    if contents is None:
        return Certificates()
    return describe(contents.authorities, contents.serving)


def _carry_out(plan: Plan, old: _Contents | None, now: datetime.datetime) -> _Contents:
    authorities = [
        pair
        for pair in (old.authorities if old else ())
        if term(pair.certificate).name not in plan.drop
    ]
    if plan.make_authority:
        authorities.append(make_authority(now))
    serving = old.serving if old else None
    if plan.sign_by is not None:
        serving = sign_serving(authorities[plan.sign_by], now)
    key = old.world_key if old else secrets.token_bytes(_KEY_BYTES)
    return _Contents(tuple(authorities), serving, key)


def _identity(contents: _Contents) -> Identity:
    assert contents.serving is not None, "if a plan has nothing to do, there is one"
    bundle = b"".join(pair.certificate for pair in contents.authorities).decode()
    return Identity(bundle, contents.serving, contents.world_key)


def _write_contents(contents: _Contents) -> dict[str, str | None]:
    first, *rest = contents.authorities
    following = rest[0] if rest else Pair(b"", b"")
    serving = contents.serving
    assert serving is not None, "if there was none, the plan made one"
    files = {
        "ca.crt": first.certificate,
        "ca.key": first.key,
        "next-ca.crt": following.certificate,
        "next-ca.key": following.key,
        "tls.crt": serving.certificate,
        "tls.key": serving.key,
        "world.key": contents.world_key,
    }
    # In a merge patch null removes a key from the Secret.
    return {name: base64.b64encode(file).decode() or None for name, file in files.items()}


def _read_contents(data: Mapping[str, str]) -> _Contents:
    try:
        files = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
        authorities = tuple(
            Pair(files[f"{name}.crt"], files[f"{name}.key"])
            for name in ("ca", "next-ca")
            if f"{name}.crt" in files
        )
        contents = _Contents(
            authorities, Pair(files["tls.crt"], files["tls.key"]), files["world.key"]
        )
        _described(contents)
    except (KeyError, ValueError, binascii.Error) as error:
        raise ValueError(
            f"the Secret with the agents' certificates is damaged ({error!r}): delete it, and the "
            "operator creates it again; workers that run by then must be replaced"
        ) from error
    return contents


async def load_patiently(source: Source) -> Identity:
    """Load an identity, for as long as it takes: without one no agent can be served."""
    failures, roll = 0, Random().random  # noqa: S311 - jitter, not a secret
    while True:
        try:
            return await source.load()
        except (KubeError, OSError, ValueError) as error:
            failures += 1
            retry_after_seconds = getattr(error, "retry_after_seconds", None)
            pause_seconds = Backoff().pause_seconds(failures, roll, retry_after_seconds)
            log.log(
                log_level(failures),
                "the operator has no certificates for agents yet, trying again in %.1f s: %s",
                pause_seconds,
                error,
            )
            await asyncio.sleep(pause_seconds)
