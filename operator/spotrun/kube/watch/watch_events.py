"""Lines of a watch as typed events, decoded in one pass into the caller's Struct."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from spotrun.kube.errors import Retryable, Status
from spotrun.kube.json_depth import decode
from spotrun.kube.resource import Key, Meta, Object

T = TypeVar("T", bound=Object)


class Identity(msgspec.Struct, frozen=True):
    """The metadata of any object."""

    metadata: Meta = Meta()


class Added(msgspec.Struct, Generic[T], frozen=True, tag="ADDED", tag_field="type"):
    """An object is new."""

    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, tag="MODIFIED", tag_field="type"):
    """An object has changed."""

    object: T


class Deleted(msgspec.Struct, frozen=True, tag="DELETED", tag_field="type"):
    """An object is gone, or is no longer selected."""

    object: Identity


class Bookmark(msgspec.Struct, frozen=True, tag="BOOKMARK", tag_field="type"):
    """Nothing happened up to this version."""

    object: Identity


class Failure(msgspec.Struct, frozen=True, tag="ERROR", tag_field="type"):
    """The stream cannot continue."""

    object: Status


@dataclass(frozen=True)
class Broken:
    """An object that does not fit the caller's Struct."""

    key: Key
    version: str
    why: str


Event = Added[T] | Modified[T] | Deleted | Bookmark | Failure


class _AnyEvent(msgspec.Struct, frozen=True):
    object: Identity


class Codec(Generic[T]):
    """Reads objects and events of one type."""

    def __init__(self, as_type: type[T]) -> None:
        self._item: msgspec.json.Decoder[Any] = msgspec.json.Decoder(as_type)
        self._event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            Added[as_type] | Modified[as_type] | Deleted | Bookmark | Failure  # type: ignore[valid-type]  # a type known only at run time
        )

    def event(self, line: bytes) -> Event[T] | Broken:
        """Decode one line of a stream; raises Retryable if it is no event at all."""
        try:
            event: Event[T] = decode(self._event, line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _broken(line, _AnyEvent, error)
        return event

    def item(self, raw: msgspec.Raw) -> T | Broken:
        """Decode one object of a list."""
        try:
            item: T = decode(self._item, raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _broken(raw, Identity, error)
        return item


def _broken(
    data: bytes | msgspec.Raw, as_type: type[_AnyEvent | Identity], why: Exception
) -> Broken:
    try:
        read = decode(msgspec.json.Decoder(as_type), data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Retryable(f"the API server sent something that is not an object: {error}") from error
    meta = read.object.metadata if isinstance(read, _AnyEvent) else read.metadata
    return Broken(Key(meta.namespace, meta.name), meta.resource_version, str(why))
