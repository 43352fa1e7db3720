import json
from typing import Any

import msgspec
import pytest

from spotrun.kube.errors import Retryable
from spotrun.kube.resource import Key, Meta
from spotrun.kube.watch.watch_events import (
    Added,
    Bookmark,
    Broken,
    Codec,
    Deleted,
    Failure,
    Modified,
)


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: dict[str, str]


CODEC = Codec(Pod)
META = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}


def line(kind: str, **content: Any) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode()


@pytest.mark.parametrize(("kind", "expected"), [("ADDED", Added), ("MODIFIED", Modified)])
def test_objects_are_read_as_far_as_the_struct(kind: str, expected: type[object]) -> None:
    event = CODEC.event(line(kind, metadata=META, spec={"x": "y"}, status={"phase": "Running"}))
    assert isinstance(event, expected)
    assert isinstance(event, Added | Modified)
    assert event.object.spec == {"x": "y"}
    assert event.object.metadata.version == 7


def test_deletions_and_bookmarks_need_not_fit_the_struct() -> None:
    assert isinstance(CODEC.event(line("DELETED", metadata=META)), Deleted)
    bookmark = CODEC.event(
        line("BOOKMARK", metadata={"resourceVersion": "9"}, spec={"containers": None})
    )
    assert isinstance(bookmark, Bookmark)
    assert bookmark.object.metadata.version == 9


def test_an_error_carries_its_status() -> None:
    failure = CODEC.event(line("ERROR", code=410, reason="Expired", message="too old"))
    assert isinstance(failure, Failure)
    assert failure.object.code == 410


def test_what_does_not_fit_is_named() -> None:
    broken = CODEC.event(line("ADDED", metadata=META, spec=5))
    assert isinstance(broken, Broken)
    assert (broken.key, broken.version) == (Key("ns", "a"), "7")
    assert "$.object.spec" in broken.why
    item = CODEC.item(msgspec.Raw(json.dumps({"metadata": META}).encode()))
    assert isinstance(item, Broken)
    assert "spec" in item.why


@pytest.mark.parametrize("junk", [b"", b"<html>", b"[]", b'{"type":"ADDED"}', b"\xff", b"{"])
def test_what_is_no_event_breaks_the_stream(junk: bytes) -> None:
    with pytest.raises(Retryable, match="not an object"):
        CODEC.event(junk)
