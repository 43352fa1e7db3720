"""Kubeconfigs as kubectl reads them: several files, a context, its namespace, its credentials.

Certificates and tokens are read here, in milliseconds. Users with a plugin, or anything else that
needs more than reading, use the Kubernetes client, whose import alone takes a third of a second.
"""

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from spotrun.kube.rest.access import (
    FRESH_SECONDS,
    Access,
    AccessError,
    Load,
    Settings,
    access_of,
    from_kubeconfig,
)
from spotrun.kube.rest.proxies import proxy_of, usable

_READABLE_USER = frozenset(
    [
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
    ]
)
_READABLE_CLUSTER = frozenset(
    [
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
        "proxy-url",
        "extensions",
    ]
)
_IMPERSONATION = frozenset(["as", "as-uid", "as-groups", "as-user-extra"])
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Part = Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """The chosen context, with its cluster and its user."""

    context: str
    namespace: str
    load: Load = field(repr=False)


def files_named(given: str | None, environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the kubeconfig files that exist, in the order of their precedence."""
    named = given or environment.get("KUBECONFIG") or str(home / ".kube/config")
    return [path for part in named.split(os.pathsep) if (path := Path(part)).is_file()]


def choose(paths: Sequence[Path], context: str | None = None) -> Chosen:
    """Read a context; raises AccessError that says what is missing."""
    try:
        chosen = _chosen(paths, context)
        return replace(chosen, load=_through_proxy(chosen.load))
    except (TypeError, ValueError, AttributeError) as error:  # entries of other types
        raise AccessError(
            f"{_listed(paths)} is no kubeconfig: compare it with `kubectl config view` ({error})"
        ) from error


def _chosen(paths: Sequence[Path], context: str | None) -> Chosen:
    merged = [_read(path) for path in paths]
    name = context or next(
        (current for one in merged if (current := one.get("current-context"))), None
    )
    if not name:
        raise AccessError(
            f"{_listed(paths)} names no current context: choose one of "
            f"{_names(merged, 'contexts') or 'none'} with --context, or with "
            "`kubectl config use-context`"
        )
    inner = _named(merged, "contexts", "context", name)
    if inner is None:
        raise AccessError(
            f"there is no context {name!r} in {_listed(paths)}: it has "
            f"{_names(merged, 'contexts') or 'none'}"
        )
    cluster = _named(merged, "clusters", "cluster", inner.get("cluster"))
    user = _named(merged, "users", "user", inner.get("user"))
    namespace = str(inner.get("namespace") or "default")
    if not isinstance((cluster or {}).get("insecure-skip-tls-verify", False), bool):
        raise TypeError("insecure-skip-tls-verify is neither true nor false")  # but text: "false"
    if _is_readable(cluster, user):
        return Chosen(name, namespace, _reading(cluster or {}, user or {}, paths))
    if others := sorted(_IMPERSONATION & (user or {}).keys()):
        raise AccessError(
            f"the user of context {name!r} acts as somebody else ({', '.join(others)}), which this "
            "command cannot do: it would use that user's own rights. Choose another --context"
        )
    together = Path(os.pathsep.join(map(str, paths)))
    # With its name: if several files have a current context, the client takes the last one, and
    # kubectl the first.
    return Chosen(name, namespace, from_kubeconfig(together, name))


def _through_proxy(load: Load) -> Load:
    """Add the proxy that the environment names, if the kubeconfig names none."""

    @wraps(load)
    async def loaded() -> Access:
        access = await load()
        try:
            proxy = usable(access.proxy) if access.proxy else proxy_of(access.server, os.environ)
        except ValueError as error:
            raise AccessError(str(error)) from error
        return replace(access, proxy=proxy)

    return loaded


def _is_readable(cluster: _Part | None, user: _Part | None) -> bool:
    """Whether reading is enough; if a part is missing or unknown, the client may explain it."""
    if not cluster or user is None:
        return False
    return cluster.keys() <= _READABLE_CLUSTER and user.keys() <= _READABLE_USER


def _reading(cluster: _Part, user: _Part, paths: Sequence[Path]) -> Load:
    async def load() -> Access:
        try:
            return _access(cluster, user)
        except (OSError, ValueError, TypeError) as error:
            raise AccessError(f"{_listed(paths)} cannot be used: {error}") from error

    return load


def _access(cluster: _Part, user: _Part) -> Access:
    token = user.get("token")
    if file := user.get("tokenFile"):
        token = Path(file).read_text()
    with TemporaryDirectory() as folder:  # only its owner can read the files in it
        settings = Settings(
            server=str(cluster.get("server", "")),
            token=f"Bearer {token}" if token else None,
            ca_file=_file(cluster, "certificate-authority", Path(folder) / "ca"),
            cert_file=_file(user, "client-certificate", Path(folder) / "cert"),
            key_file=_file(user, "client-key", Path(folder) / "key"),
            is_verified=not cluster.get("insecure-skip-tls-verify", False),
            server_name=cluster.get("tls-server-name"),
            proxy=cluster.get("proxy-url") or None,
        )
        return access_of(settings, FRESH_SECONDS if user.get("tokenFile") else None)


def _file(part: _Part, name: str, place: Path) -> str | None:
    """Return the file of a certificate or key; inline data takes precedence."""
    if inline := part.get(f"{name}-data"):
        place.write_bytes(base64.b64decode(inline))
        return str(place)
    return part.get(name) or None


def _read(path: Path) -> dict[str, Any]:
    """Read a file; the paths in it are relative to its folder."""
    try:
        content = yaml.load(path.read_text(), Loader=_LOADER)  # noqa: S506 - the safe one, in C
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AccessError(f"{path} cannot be read as a kubeconfig: {error}") from error
    if not isinstance(content, dict):
        raise AccessError(f"{path} is no kubeconfig: compare it with `kubectl config view`")
    for part in _parts(content, "clusters", "cluster"):
        _anchor(part, path.parent, ("certificate-authority",))
    for part in _parts(content, "users", "user"):
        _anchor(part, path.parent, ("client-certificate", "client-key", "tokenFile"))
    return content


def _anchor(part: dict[str, Any], folder: Path, names: Iterable[str]) -> None:
    part.update({name: str(folder / part[name]) for name in names if part.get(name)})


def _parts(content: _Part, plural: str, singular: str) -> Iterable[dict[str, Any]]:
    for one in content.get(plural) or ():
        if isinstance(one, dict) and isinstance(one.get(singular), dict):
            yield one[singular]


def _named(
    merged: Sequence[_Part], plural: str, singular: str, name: object
) -> dict[str, Any] | None:
    """Return the first entry of that name, as kubectl merges files."""
    for content in merged:
        for one in content.get(plural) or ():
            if isinstance(one, dict) and one.get("name") == name:
                return dict(one.get(singular) or {})
    return None


def _names(merged: Sequence[_Part], plural: str) -> str:
    entries = (one for content in merged for one in content.get(plural) or ())
    return ", ".join(str(one["name"]) for one in entries if isinstance(one, dict) and "name" in one)


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))
