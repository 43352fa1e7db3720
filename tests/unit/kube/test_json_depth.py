"""Objects that are nested too deep are read as far as they go, and keep nobody from being read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.kube.json_depth import MOST_LEVELS, decode, shallow
from spotrun.kube.resource import Meta
from spotrun.kube.watch.watch_events import Added, Codec

DEEPEST = 10_000  # what the API server takes


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def nested(levels: int, inner: bytes = b'"]}"') -> bytes:
    return b'{"a":[' * (levels // 2) + inner + b"]}" * (levels // 2)


def thing(spec: bytes) -> bytes:
    return b'{"metadata":{"name":"a","uid":"u","resourceVersion":"7"},"spec":' + spec + b"}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_what_is_not_deep_stays_as_it_is(value: Any) -> None:
    text = json.dumps(value).encode()
    assert shallow(text) == text


@pytest.mark.parametrize("levels", [MOST_LEVELS, MOST_LEVELS + 2, DEEPEST])
def test_what_is_deeper_is_left_out(levels: int) -> None:
    beside = b'{"deep":' + nested(levels) + b',"flat":["[",{"b":1}]}'
    read = msgspec.json.decode(shallow(beside))
    assert read["flat"] == ["[", {"b": 1}]
    depth, value = 0, read["deep"]
    while isinstance(value, dict | list):
        depth, value = depth + 1, value["a"] if isinstance(value, dict) else value[0]
    assert depth == MOST_LEVELS - 1  # beside its own object
    assert value is None


def test_an_object_that_is_too_deep_is_still_known_by_its_name() -> None:
    line = b'{"type":"ADDED","object":' + thing(nested(DEEPEST)) + b"}"
    with pytest.raises(RecursionError):
        msgspec.json.decode(line, type=Added[Thing])
    event = Codec(Thing).event(line)
    assert isinstance(event, Added)
    assert event.object.metadata.name == "a"


def test_a_list_holds_everybody_else_beside_one_that_is_too_deep() -> None:
    page = b"[" + thing(nested(DEEPEST)) + b"," + thing(b'{"b":1}') + b"]"
    deep, flat = decode(msgspec.json.Decoder(list[Thing]), page)
    assert deep.metadata.name == flat.metadata.name
    assert bytes(flat.spec) == b'{"b":1}'
