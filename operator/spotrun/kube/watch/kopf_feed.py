"""Changes found by our reflectors, served to kopf as an API server would.

kopf's own watch may end the process at an error in its stream, and misses a deletion that was lost
with a connection (ADR 0001). Here streams have no errors, no ends and no gaps, because the
reflectors that fill them survive faults and compare whole lists. Lists are empty: objects that
existed before are not changes. Only names and versions are sent; the objects are in the caches.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from spotrun.kube.resource import Key, Meta, Object, Resource
from spotrun.kube.watch.kopf_http import Answer
from spotrun.kube.watch.reflector import Handler
from spotrun.kube.workqueue.schedule import Lane

SERVER = "http://feed.invalid"
"""The address that a client of the feed gets as the server's; nothing ever connects to it."""

MOST_IN_HAND = 50
"""The most changes of a kind that kopf gets before it has handled one: each takes 0.4 ms of the
event loop, and thousands at once would delay everything else by a second."""

_NAMESPACES = Resource("", "v1", "namespaces")


@dataclass(frozen=True)
class Kind:
    """A kind whose changes are sent."""

    resource: Resource
    name: str
    is_namespaced: bool = True


def _by_namespace() -> Lane[tuple[Key, str]]:
    return Lane(lambda one: one[0].namespace)


@dataclass
class _Stream:
    """The changes of one kind that were not read yet: the newest one of each object."""

    lines: dict[tuple[Key, str], bytes] = field(default_factory=dict)
    turns: Lane[tuple[Key, str]] = field(default_factory=_by_namespace)
    in_hand: set[Key] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Feed:
    """Takes in changes, and stands in for kopf's HTTP session."""

    closed = False

    def __init__(
        self, kinds: Iterable[Kind], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.headers: dict[str, str] = {}
        self._kinds = {kind.resource: kind for kind in kinds}
        self._streams = {resource: _Stream() for resource in self._kinds}
        self._unhandled: dict[tuple[Resource, Key], float] = {}
        self._clock = clock
        self.is_paused = True

    def resume(self) -> None:
        """Send changes from now on; the caller queues all existing objects itself."""
        self.is_paused = False

    def pause(self) -> None:
        """Send nothing more: this replica does not act on changes."""
        self.is_paused = True
        self._unhandled.clear()
        for stream in self._streams.values():
            stream.lines.clear()
            stream.turns = _by_namespace()
            stream.in_hand.clear()

    def handler(self, resource: Resource) -> Handler[Any]:
        """Return the callback for a reflector of that resource."""

        def changed(old: Object | None, new: Object | None) -> None:
            stays = old is not None and new is not None and old.metadata.uid == new.metadata.uid
            if old is not None and not stays:
                self._tell(resource, "DELETED", old.metadata)
            if new is not None:
                self._tell(resource, "MODIFIED" if stays else "ADDED", new.metadata)

        return changed

    def handled(self, resource: Resource, key: Key) -> None:
        """Note that a change was handled."""
        self._unhandled.pop((resource, key), None)
        stream = self._streams[resource]
        stream.in_hand.discard(key)
        stream.news.set()

    def unhandled_seconds(self) -> float:
        """Return how long the oldest change has waited to be handled."""
        since = next(iter(self._unhandled.values()), None)
        return 0.0 if since is None else self._clock() - since

    def _tell(self, resource: Resource, event: str, meta: Meta) -> None:
        if self.is_paused:
            return
        kind, stream = self._kinds[resource], self._streams[resource]
        key = Key(meta.namespace, meta.name)
        content = {
            "apiVersion": f"{resource.group}/{resource.version}",
            "kind": kind.name,
            "metadata": {
                "namespace": meta.namespace or None,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
        }
        line = msgspec.json.encode({"type": event, "object": content}) + b"\n"
        stream.lines[key, meta.uid] = line
        now = self._clock()
        stream.turns.put((key, meta.uid), now)
        stream.news.set()
        self._unhandled.setdefault((resource, key), now)

    # ------------------------------------------------------------ as an `aiohttp.ClientSession`

    async def request(self, method: str, url: str, **_: object) -> Answer:
        """Answer as the API server does; only discovery, lists and watches are known."""
        parts = urlsplit(url)
        found = self._documents().get(parts.path) if method.upper() == "GET" else None
        if found is not None:
            return Answer(200, found)
        kind = self._followed(parts.path) if method.upper() == "GET" else None
        if kind is None:
            message = (
                f"{method.upper()} {parts.path}: only {self._paths()} can be watched here: use "
                "`kopf run --all-namespaces`; SPOTRUN_WATCH_NAMESPACE chooses one namespace"
            )
            return Answer(404, {"kind": "Status", "code": 404, "message": message})
        if "watch" in parse_qs(parts.query):
            return Answer(200, stream=self._follow(self._streams[kind.resource]))
        return Answer(200, {"metadata": {"resourceVersion": "0"}, "items": []})

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def _follow(self, stream: _Stream) -> AsyncGenerator[bytes, None]:
        while True:
            while not stream.lines or len(stream.in_hand) >= MOST_IN_HAND:
                stream.news.clear()
                await stream.news.wait()
            free = min(MOST_IN_HAND - len(stream.in_hand), len(stream.lines))
            given = [stream.turns.take() for _ in range(free)]
            stream.in_hand.update(key for key, _ in given)
            yield b"".join(stream.lines.pop(one) for one in given)

    def _documents(self) -> dict[str, object]:
        """Return the discovery documents: our kinds, and namespaces, which kopf requires."""
        versions = {(resource.group, resource.version) for resource in self._kinds}
        documents: dict[str, object] = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [_described(Kind(_NAMESPACES, "Namespace", False))]},
            "/apis": {"groups": [_group(*one) for one in sorted(versions)]},
        }
        for group, version in versions:
            kinds = (k for r, k in self._kinds.items() if (r.group, r.version) == (group, version))
            described = [_described(kind) for kind in kinds]
            documents[f"/apis/{group}/{version}"] = {"resources": described}
        return documents

    def _followed(self, path: str) -> Kind | None:
        """Return the kind whose collection has that path."""
        return next((k for r, k in self._kinds.items() if path == r.path()), None)

    def _paths(self) -> str:
        return " and ".join(resource.path() for resource in self._kinds)


def _group(group: str, version: str) -> dict[str, object]:
    named = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [named], "preferredVersion": named}


def _described(kind: Kind) -> dict[str, object]:
    return {
        "name": kind.resource.plural,
        "singularName": kind.name.lower(),
        "kind": kind.name,
        "namespaced": kind.is_namespaced,
        "verbs": ["list", "watch"],
    }
