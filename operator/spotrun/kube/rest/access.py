"""The API server's address and our credentials, read again as tokens and certificates rotate."""

import asyncio
import datetime
import hashlib
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:  # these imports take 0.3 s, and most commands do not need them
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import kube_config

log = logging.getLogger(__name__)

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FRESH_SECONDS = 60.0
"""A token file is read again after this time, as in client-go; kubelets rotate tokens long before
they expire."""

_EXPIRY_SLACK_SECONDS = 60.0


class AccessError(Exception):
    """There is no usable configuration; the message says what is missing."""


@dataclass(frozen=True)
class Access:
    """One way to reach the API server, good for `fresh_seconds`."""

    server: str
    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    tls_digest: bytes = b""  # of the files behind `tls`: if it is equal, connections are kept
    server_name: str | None = None
    proxy: str | None = None
    fresh_seconds: float | None = None  # None: until it is refused


@dataclass(frozen=True)
class Settings:
    """The parts of a way to reach the API server, as a kubeconfig has them."""

    server: str
    token: str | None = field(default=None, repr=False)  # the whole header, with its "Bearer "
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    is_verified: bool = True
    server_name: str | None = None
    proxy: str | None = None


Load = Callable[[], Awaitable[Access]]


def in_cluster(
    token_file: str = str(_SERVICE_ACCOUNT / "token"),
    ca_file: str = str(_SERVICE_ACCOUNT / "ca.crt"),
) -> Load:
    """Access from within a pod: its service account's token and the environment."""

    async def load() -> Access:
        try:
            host, port = (os.environ[f"KUBERNETES_SERVICE_{name}"] for name in ("HOST", "PORT"))
            address = f"[{host}]" if ":" in host else host
            token = f"Bearer {_filled(token_file)}"
            settings = Settings(f"https://{address}:{port}", token, ca_file=ca_file)
            return access_of(settings, FRESH_SECONDS)
        except (KeyError, OSError, ValueError) as error:
            raise AccessError(
                f"this process does not run in a pod, or the pod's token is missing: {error}"
            ) from error

    return load


def _filled(file: str) -> str:
    text = Path(file).read_text().strip()
    if not text:
        raise ValueError(f"{file} is empty")
    return text


def from_kubeconfig(path: Path, context: str | None = None) -> Load:
    """Access as a kubeconfig file says: certificates, tokens, token files, exec plugins, OIDC."""
    from kubernetes.aio.client import Configuration  # noqa: PLC0415
    from kubernetes.aio.config import ConfigException, kube_config  # noqa: PLC0415

    async def load() -> Access:
        configuration = Configuration()
        try:
            loader = await kube_config.load_kube_config(
                str(path), context, client_configuration=configuration, persist_config=False
            )
            return _access(configuration, _fresh_seconds(loader, configuration, path))
        except (ConfigException, OSError, ValueError, yaml.YAMLError) as error:
            raise AccessError(f"{path} cannot be used: {error}") from error
        except (TypeError, AttributeError, LookupError) as error:
            # The loader does not check the types in a file; it fails at a wrong one.
            raise AccessError(
                f"{path} cannot be used: it is no kubeconfig, or names a cluster or a user that it "
                f"does not contain; compare it with what `kubectl config view` prints ({error!r})"
            ) from error

    return load


class Credentials:
    """The current access; reads it again when it is stale or was refused."""

    def __init__(self, load: Load, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._current: Access | None = None
        self._loaded_at = 0.0
        self._loading = asyncio.Lock()

    async def current(self) -> Access:
        """Return the access to use now; raises AccessError only if there has never been any."""
        access = self._current
        if access is not None and not self._is_stale(access):
            return access
        return await self._reload(access)

    async def replace(self, refused: Access) -> Access:
        """Return a newer access than the one that was just refused."""
        return await self._reload(refused)

    def _is_stale(self, access: Access) -> bool:
        fresh = access.fresh_seconds
        return fresh is not None and self._clock() - self._loaded_at >= fresh

    async def _reload(self, old: Access | None) -> Access:
        async with self._loading:
            if self._current is not None and self._current is not old:
                return self._current  # another task has just loaded it
            loaded = await self._load_or_keep(old)
            if old is not None and loaded.tls_digest == old.tls_digest:
                # With an equal but new context, no pooled connection could be used again.
                loaded = replace(loaded, tls=old.tls)
            self._current, self._loaded_at = loaded, self._clock()
            return loaded

    async def _load_or_keep(self, old: Access | None) -> Access:
        try:
            return await self._load()
        except AccessError as error:
            if old is None:
                raise
            # The files may be in the middle of a rotation; the old ones may still be accepted.
            log.warning("credentials could not be read again, the old ones stay in use: %s", error)
            return old


def _fresh_seconds(
    loader: "kube_config.KubeConfigLoader", configuration: "Configuration", path: Path
) -> float | None:
    """Return how long an access from a kubeconfig may be used; None: until it is refused."""
    user = loader._user or {}  # noqa: SLF001 - no public attribute says which credentials it used
    if "exec" in user and not (_token(configuration) or configuration.cert_file):
        # The loader has only logged why; requests without credentials would show only a 403.
        raise AccessError(f"the exec plugin that {path} names gave no credentials (see the log)")
    if hasattr(loader, "exec_plugin_expiry"):
        return _seconds_until(loader.exec_plugin_expiry) - _EXPIRY_SLACK_SECONDS
    return FRESH_SECONDS if "tokenFile" in user else None


def _token(configuration: "Configuration") -> str | None:
    token: str | None = configuration.api_key.get("BearerToken")
    return token


def _seconds_until(time_of_day: datetime.datetime) -> float:
    return (time_of_day - datetime.datetime.now(datetime.UTC)).total_seconds()


def _access(configuration: "Configuration", fresh_seconds: float | None) -> Access:
    """Read what the loader found; raises ValueError and OSError that say what is wrong."""
    settings = Settings(
        server=configuration.host,
        token=_token(configuration),
        ca_file=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        is_verified=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )
    return access_of(settings, fresh_seconds)


def access_of(settings: Settings, fresh_seconds: float | None) -> Access:
    """Make an access; raises ValueError and OSError that say what is wrong."""
    _require_url(settings.server)
    tls, digest = None, b""
    if settings.server.startswith("https:"):
        tls, digest = _tls(settings)
    return Access(
        server=settings.server,
        authorization=settings.token.strip() if settings.token else None,
        tls=tls,
        tls_digest=digest,
        server_name=settings.server_name,
        proxy=settings.proxy,
        fresh_seconds=fresh_seconds,
    )


def _require_url(server: str) -> None:
    try:
        parts = urlsplit(server)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # wrong brackets, or a wrong port
        is_url = False
    if not is_url:
        raise ValueError(f"the server {server!r} is no URL: write it like https://192.0.2.7:6443")


def _tls(settings: Settings) -> tuple[ssl.SSLContext, bytes]:
    files = (settings.ca_file, settings.cert_file, settings.key_file)
    digest = hashlib.sha256(repr(settings.is_verified).encode())
    for name in files:
        digest.update(Path(name).read_bytes() if name else b"-")
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except ssl.SSLError as error:
        raise ValueError(f"the certificate authority is no certificate: {error}") from error
    # Python 3.13 asks for extensions that the authorities of real clusters lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings.cert_file:
        try:
            context.load_cert_chain(settings.cert_file, settings.key_file)
        except ssl.SSLError as error:
            raise ValueError(
                f"the client certificate or key cannot be read, or they do not match: {error}"
            ) from error
    if not settings.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context, digest.digest()
