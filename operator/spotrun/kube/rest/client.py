"""Typed operations on objects: they take a Struct or a dict, and return a Struct."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from spotrun.kube.clock import Clock
from spotrun.kube.errors import Ambiguous, Retryable
from spotrun.kube.json_depth import decode
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.transport import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    Params,
    Transport,
)

T = TypeVar("T")

PAGE = 500
"""Objects per page of a list, as in client-go."""

Propagation = Literal["Background", "Foreground", "Orphan"]


class ListMeta(
    msgspec.Struct, frozen=True, rename={"next": "continue", "version": "resourceVersion"}
):
    """The metadata of one page."""

    version: str = ""
    next: str = ""


class Page(msgspec.Struct, frozen=True):
    """One page of a list; items are decoded one by one, so that a bad one affects no other."""

    metadata: ListMeta
    items: tuple[msgspec.Raw, ...] | None = None  # Go's empty lists may be null


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a collection as they were at one version."""

    items: tuple[T, ...]
    version: int


@dataclass(frozen=True)
class Selection:
    """A kind of object, restricted to a namespace, labels and fields."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    @property
    def path(self) -> str:
        """The path of the collection."""
        return self.resource.path(self.namespace)

    @property
    def params(self) -> dict[str, str]:
        """The selectors as a query."""
        chosen = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in chosen.items() if value}


class _Versioned(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()


class Client:
    """One API server as one field manager.

    Every operation raises KubeError. Writes take `dry_run`: the API server does everything,
    admission included, but keeps nothing.
    """

    def __init__(
        self, transport: Transport, *, field_manager: str, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self._transport = transport
        self._manager = field_manager
        transport.on_date = self.clock.compare

    async def get(
        self, resource: Resource, name: str, as_type: type[T], *, namespace: str | None = None
    ) -> T:
        """Read one object."""
        answer = await self._transport.request("GET", resource.path(namespace, name))
        return _read(answer, as_type)

    async def list_all(
        self, selection: Selection, as_type: type[T], *, page: int = PAGE
    ) -> Listing[T]:
        """Read a collection at one, current version (not from a cache that may lag behind)."""
        items: list[T] = []
        version = 0
        async with aclosing(self.pages(selection, page=page)) as pages:
            async for one in pages:
                items += [_read(item, as_type) for item in one.items or ()]
                version = version_of(one.metadata.version)
        return Listing(tuple(items), version)

    async def pages(self, selection: Selection, *, page: int = PAGE) -> AsyncGenerator[Page, None]:
        """Read a collection page by page; raises Gone when that took too long.

        While the caller reads a page, the API server already writes the next one.
        """
        answer = asyncio.create_task(self._ask_for_page(selection, page))
        try:
            while True:
                one = _read(await answer, Page)
                if one.metadata.next:
                    after = self._ask_for_page(selection, page, one.metadata.next)
                    answer = asyncio.create_task(after)
                    await asyncio.sleep(0)  # it is sent now: the caller may not wait for anything
                yield one
                if not one.metadata.next:
                    return
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    async def first_page(self, selection: Selection, *, page: int) -> Page:
        """Read the first objects of a collection."""
        return _read(await self._ask_for_page(selection, page), Page)

    async def newest_version(self, selection: Selection) -> int:
        """Return the current version of a collection."""
        return version_of((await self.first_page(selection, page=1)).metadata.version)

    async def _ask_for_page(self, selection: Selection, page: int, after: str = "") -> bytes:
        query = {**selection.params, "limit": str(page)} | ({"continue": after} if after else {})
        return await self._transport.request("GET", selection.path, params=query)

    async def create(
        self,
        resource: Resource,
        body: object,
        as_type: type[T],
        *,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Create an object, or post to a subresource of one (such as a pod's eviction)."""
        path = resource.path(namespace, name, subresource)
        params = self._params(dry_run)
        return await self._send("POST", path, body, as_type, params=params)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        as_type: type[T],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Set our fields by server-side apply, even if another manager owns them.

        Creates a missing object; put the UID into the body if that must not happen.
        """
        path = resource.path(namespace, name, subresource)
        params = {**self._params(dry_run), "force": "true"}
        return await self._send(
            "PATCH", path, body, as_type, params=params, content_type=APPLY_PATCH
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, object] | Sequence[Mapping[str, object]],
        as_type: type[T],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Patch an object: a mapping is a merge patch, a sequence is a JSON patch.

        To make it conditional, put `metadata.resourceVersion` into a merge patch: if the object has
        another version, a Conflict is raised.
        """
        kind = MERGE_PATCH if isinstance(patch, Mapping) else JSON_PATCH
        path = resource.path(namespace, name, subresource)
        return await self._send(
            "PATCH", path, patch, as_type, params=self._params(dry_run), content_type=kind
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: object,
        as_type: type[T],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Replace an object or its status; the version in the body must still be current.

        A lost answer may show here as a Conflict with our own write: the connection pool sends a
        PUT again when a kept connection turns out to be dead.
        """
        path = resource.path(namespace, name, subresource)
        params = self._params(dry_run)
        return await self._send("PUT", path, body, as_type, params=params)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        uid: str,
        namespace: str | None = None,
        version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> int | None:
        """Delete the object of this UID; raises Conflict if another UID or version has its name.

        Returns the version that the object now has, if the answer contains one.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        options: dict[str, object] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
            "preconditions": preconditions,
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        params = {"dryRun": "All"} if dry_run else {}
        path = resource.path(namespace, name)
        answer = await self._send("DELETE", path, options, _Versioned, params=params)
        left = answer.metadata.resource_version
        return int(left) if left else None

    def watch(
        self, selection: Selection, *, version: int, seconds: float, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Follow a collection from a version for at most `seconds`: raw lines, bookmarks too.

        The first batch is empty: it says that the API server has accepted the watch.
        """
        params = {
            **selection.params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(version),
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        return self._transport.stream(
            selection.path, params=params, silence_seconds=silence_seconds
        )

    def _params(self, dry_run: bool) -> dict[str, str]:
        dry = {"dryRun": "All"} if dry_run else {}
        # Strict: a misspelled field is an error, and is not silently ignored.
        return {"fieldManager": self._manager, "fieldValidation": "Strict", **dry}

    async def _send(
        self,
        method: str,
        path: str,
        body: object,
        as_type: type[T],
        *,
        params: Params,
        content_type: str = JSON,
    ) -> T:
        answer = await self._transport.request(
            method,
            path,
            params=params,
            body=msgspec.json.encode(body, enc_hook=_plain),
            content_type=content_type,
            accept=METADATA if _reads_metadata_alone(as_type) else JSON,
        )
        return _read(answer, as_type, write="dryRun" not in params)


def _reads_metadata_alone(as_type: type[object]) -> bool:
    return getattr(as_type, "__struct_fields__", ()) == ("metadata",)


def _plain(value: object) -> str:
    """Return a plain string for a subclass of str."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def version_of(text: str) -> int:
    """Return a resource version as a number; raises Retryable for text that cannot be one."""
    if not text.isdecimal():
        raise Retryable(f"the API server sent the resource version {text!r}, which is no number")
    return int(text)


_DECODERS: dict[object, msgspec.json.Decoder[Any]] = {}  # kept: making one costs more than a use


def _read(answer: bytes | msgspec.Raw, as_type: type[T], *, write: bool = False) -> T:
    if as_type not in _DECODERS:
        _DECODERS[as_type] = msgspec.json.Decoder(as_type)
    try:
        decoded: T = decode(_DECODERS[as_type], answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        kind = Ambiguous if write else Retryable
        raise kind(f"the API server's answer is not a {as_type.__name__}: {error}") from error
    return decoded
