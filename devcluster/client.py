"""A small asynchronous Kubernetes client over JSON.

Deliberately not the operator's client: a test tool must not share bugs with the code that it tests.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from devcluster.access import Access
from devcluster.connector import Connector
from devcluster.watching import WatchEvent, difference, remember

Manifest = dict[str, Any]
Manifests = list[Manifest]

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

# Requests an answer without spec and status, if the caller knows what it wrote.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

# Bookmarks come about once a minute; a stream without data for longer has stalled, so it is opened
# again.
SILENCE_SECONDS = 75.0
PAGE = 500


class ApiError(Exception):
    """The API server answered with a Status that is not a success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def may_pass(self) -> bool:
        """True where the same request can succeed a moment later."""
        return self.status == 429 or self.status >= 500


def at(
    plural: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
    *,
    group: str = "v1",
) -> str:
    """Return a resource's path, e.g. `at("jobs", "default", "a", "status", group="batch/v1")`."""
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    place = f"/namespaces/{namespace}" if namespace else ""
    rest = [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join([f"{root}{place}/{plural}", *rest])


class Client:
    """A client of one API server, used as `async with Client(access) as client`."""

    def __init__(self, access: Access, *, max_connections: int = 64) -> None:
        self._access = access
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            base_url=self._access.server,
            connector=Connector(self._access.ssl_context(), limit=self._max_connections),
            timeout=aiohttp.ClientTimeout(total=60),
            # Kubernetes sets no cookies, and a cookie jar costs time in every request.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def get(self, path: str, **params: str) -> Manifest:
        """Read one object, or a whole list as the API server sends it."""
        return await self.request("GET", path, params=params)

    async def list(self, path: str, **params: str) -> Manifests:
        """Read every object of a collection, page by page."""
        items, _ = await self._list(path, params)
        return items

    async def create(self, path: str, body: Manifest, **params: str) -> Manifest:
        """Create an object in a collection (or post to a subresource)."""
        return await self.request("POST", path, body=body, params=params)

    async def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE,
        accept: str = JSON,
        **params: str,
    ) -> Manifest:
        """Patch an object; `content_type` is one of MERGE, STRATEGIC, JSON_PATCH, APPLY."""
        return await self.request(
            "PATCH", path, body=body, params=params, content_type=content_type, accept=accept
        )

    async def delete(
        self,
        path: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        propagation: str | None = None,
    ) -> Manifest:
        """Delete an object or a collection; with `uid` or `version`, only exactly that object."""
        preconditions = {
            k: v for k, v in {"uid": uid, "resourceVersion": version}.items() if v is not None
        }
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
            "preconditions": preconditions or None,
        }
        body = {k: v for k, v in options.items() if v is not None}
        return await self.request("DELETE", path, body=body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        """Send one request; raises ApiError, or aiohttp.ClientError if there was no answer."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {"Accept": accept} | ({"Content-Type": content_type} if data else {})
        async with self._http.request(
            method, path, data=data, params=params, headers=headers
        ) as response:
            answer = await response.read()
            if response.status >= 400:
                raise _error(response.status, answer)
            decoded: Manifest = json.loads(answer)
            return decoded

    async def watch(self, path: str, **params: str) -> AsyncGenerator[WatchEvent, None]:
        """List a collection, then follow it without end.

        A stream that ends or stalls is continued where it was. After a 410 the collection is listed
        again, and the difference is returned as events, including deletions.
        """
        known: dict[str, Manifest] = {}
        version = ""
        pause_seconds = 0.0
        while True:
            try:
                if not version:
                    items, version = await self._list(path, params)
                    for event in difference(known, items):
                        yield event
                async with aclosing(self._stream(path, version, params)) as stream:
                    async for change, seen in stream:
                        version, pause_seconds = seen, 0.0
                        if change is not None:
                            remember(known, change)
                            yield change
            except ApiError as error:
                if error.status == 410:
                    version = ""
                elif not error.may_pass:
                    raise
                pause_seconds = _longer(pause_seconds)
            except (aiohttp.ClientError, TimeoutError):
                pause_seconds = _longer(pause_seconds)
            await asyncio.sleep(pause_seconds)

    async def until(
        self,
        path: str,
        name: str,
        holds: Callable[[Manifest | None], bool],
        *,
        timeout_seconds: float = 30,
    ) -> Manifest | None:
        """Wait until one object of a collection satisfies `holds`, which gets None for absence."""
        selector = {"fieldSelector": f"metadata.name={name}"}
        last: Manifest | None = None
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        async with aclosing(self._states(path, selector)) as states:
                            async for last in states:
                                if holds(last):
                                    return last
                    except (ApiError, aiohttp.ClientError) as error:
                        # A starting API server answers 429; one that ended may start again.
                        if isinstance(error, ApiError) and not error.may_pass:
                            raise
                        await asyncio.sleep(_longer(0.0))
        except TimeoutError:
            seen = json.dumps(last and {k: v for k, v in last.items() if k != "metadata"}, indent=1)
            message = f"{path}/{name} is not as expected after {timeout_seconds:g} s: {seen}"
            raise TimeoutError(message) from None

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("a Client is used inside `async with`")
        return self._session

    async def _states(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Manifest | None, None]:
        """Yield the known state of one object, and each change of it, until the watch ends."""
        items, version = await self._list(path, params)
        yield items[0] if items else None
        async with aclosing(self._stream(path, version, params)) as stream:
            async for event, _ in stream:
                if event is not None:
                    yield None if event.type == "DELETED" else event.object

    async def _list(self, path: str, params: Mapping[str, str]) -> tuple[Manifests, str]:
        items: Manifests = []
        query = {**params, "limit": str(PAGE)}
        while True:
            page = await self.get(path, **query)
            kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            items += [kind | item for item in page.get("items") or ()]
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]
            query["continue"] = token

    async def _stream(
        self, path: str, version: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[WatchEvent | None, str], None]:
        query = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            # Spread, so that many watches do not reopen at once.
            "timeoutSeconds": str(random.randint(240, 480)),  # noqa: S311 (jitter, not a secret)
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS)
        async with self._http.get(path, params=query, timeout=timeout) as response:
            if response.status >= 400:
                raise _error(response.status, await response.read())
            try:
                async for change in _lines(response):
                    seen = change["object"]
                    if change["type"] == "ERROR":
                        raise _error(seen.get("code", 500), json.dumps(seen).encode())
                    event = None
                    if change["type"] != "BOOKMARK":
                        event = WatchEvent(change["type"], seen)
                    yield event, seen["metadata"]["resourceVersion"]
            finally:
                # The stream has no end, and an orderly end of TLS would wait for one.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()


async def _lines(response: aiohttp.ClientResponse) -> AsyncGenerator[Manifest, None]:
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _longer(pause_seconds: float) -> float:
    return min(5.0, max(0.1, pause_seconds * 2))


def _error(status: int, answer: bytes) -> ApiError:
    """Read a Status; a proxy's plain text is used as it is."""
    try:
        body = json.loads(answer)
    except ValueError:
        return ApiError(status, "", answer.decode(errors="replace").strip())
    return ApiError(status, body.get("reason", ""), body.get("message", ""))
