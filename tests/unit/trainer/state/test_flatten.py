"""Any tree that is saved comes back the same, and no tree that is read does anything else."""

import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spotrun_trainer.state.flatten import JSON, flatten
from spotrun_trainer.state.unflatten import unflatten

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from([torch.bfloat16, torch.bool, torch.device("cpu"), torch.device("cuda:1")])
)
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$tuple", "$tensor", "$dict"]), inner, max_size=2)
    ),
    max_leaves=20,
)


def through_json(value: JSON) -> JSON:
    read: JSON = json.loads(json.dumps(value, allow_nan=False))
    return read


def round_trip(tree: object) -> Any:
    tensors: dict[str, Tensor] = {}
    return unflatten(through_json(flatten(tree, "state", tensors)), tensors)


@given(TREES)
def test_a_tree_comes_back_the_same(tree: object) -> None:
    read = round_trip(tree)

    assert tree == read
    assert repr(tree) == repr(read)  # True is not 1, and (1,) is not [1]


def test_numbers_without_a_size_come_back() -> None:
    assert math.isnan(round_trip(math.nan))
    assert [math.inf, -math.inf] == round_trip([math.inf, -math.inf])
    assert round_trip(2**200) == 2**200
    assert repr(round_trip(-0.0)) == "-0.0"


def test_tensors_are_named_by_their_path_and_stay_the_very_same() -> None:
    weight, moment = torch.ones(2), torch.zeros(2)
    tensors: dict[str, Tensor] = {}

    values = flatten({"layers.0": weight, "state": {0: [moment]}}, "opt", tensors)

    assert list(tensors) == ["opt/layers.0", "opt/state/0/0"]
    assert weight.data_ptr() == tensors["opt/layers.0"].data_ptr()
    assert moment is not None
    read = unflatten(values, tensors)
    assert tensors["opt/state/0/0"] is read["state"][0][0]


def test_keys_with_slashes_do_not_meet_others() -> None:
    tensors: dict[str, Tensor] = {}

    flatten({"a/b": torch.ones(1), "a": {"b": torch.ones(1)}, "a~1b": torch.ones(1)}, "x", tensors)

    assert list(tensors) == ["x/a~1b", "x/a/b", "x/a~01b"]


def test_two_keys_that_look_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="two tensors are called x/0: rename one of the keys"):
        flatten({0: torch.ones(1), "0": torch.ones(1)}, "x", {})


def test_dicts_of_other_kinds_come_back_as_what_works_like_them() -> None:
    assert Counter({3: 2}) == round_trip(Counter({3: 2}))
    assert list(round_trip(Counter({3: 2})).elements()) == [3, 3]
    assert round_trip(OrderedDict(b=1, a=2)) == {"b": 1, "a": 2}
    assert list(round_trip(OrderedDict(b=1, a=2))) == ["b", "a"]
    assert round_trip(defaultdict(list, {1: []})) == {1: []}


def test_a_module_state_keeps_the_versions_of_its_parts() -> None:
    state: Any = torch.nn.BatchNorm1d(2).state_dict()

    read = round_trip(state)

    assert state._metadata == read._metadata


def test_shapes_come_back_as_tuples() -> None:
    assert round_trip(torch.Size([2, 3])) == (2, 3)


def test_numpy_scalars_become_plain_numbers() -> None:
    numpy = pytest.importorskip("numpy")

    read = round_trip({"loss": numpy.float32(0.5), "n": numpy.int64(3), "ok": numpy.bool_(True)})

    assert read == {"loss": 0.5, "n": 3, "ok": True}
    assert [float, int, bool] == list(map(type, read.values()))


class Colour(Enum):
    RED = 1


Point = namedtuple("Point", "x")  # noqa: PYI024


@pytest.mark.parametrize(
    ("leaf", "what"),
    [
        (object(), "it is a object"),
        (lambda: None, "it is a function"),
        ({1, 2}, "it is a set"),
        (b"bytes", "it is a bytes"),
        (1j, "it is a complex"),
        (Path("x"), "it is a pathlib.PosixPath"),
        (Colour.RED, "it is a .*Colour"),
        (Point(1), "it is a .*Point"),
        (torch.float32.__class__, "it is a type"),
        (torch.Generator(), "it is a torch._C.Generator"),
        (torch.ones(2).to_sparse(), "it is not dense"),
        (torch.ones(2, device="meta"), "it is on the meta device"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_saved_is_named_with_its_path(leaf: object, what: str) -> None:
    with pytest.raises(ValueError, match=rf"^mine/a/0/b cannot be saved: {what}"):
        flatten({"a": [{"b": leaf}]}, "mine", {})


def test_numpy_arrays_are_refused() -> None:
    numpy = pytest.importorskip("numpy")

    with pytest.raises(ValueError, match=r"mine/a cannot be saved: it is a numpy\.ndarray"):
        flatten({"a": numpy.ones(2)}, "mine", {})


def test_odd_keys_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mine cannot be saved: a .*Colour is one of its keys"):
        flatten({Colour.RED: 1}, "mine", {})


def test_a_tree_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(ValueError, match="is nested deeper than 100: does it contain itself"):
        flatten(loop, "mine", {})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"$pickle": "gASV"}, "has a mark '\\$pickle' that spotrun does not know"),
        ({"$eval": "1"}, "have a mark '\\$eval' that spotrun does not know"),
        ({"$tensor": "there"}, "name a tensor 'there' that it does not have"),
        ({"$tensor": ["here"]}, "name a tensor "),
        ({"$dict": [[1]]}, "have a \\$dict that is not a list of pairs"),
        ({"$dict": [[[], 1]]}, "have a \\$dict that is none"),
        ({"$dict": 3}, "have a \\$dict that is not a list of pairs"),
        ({"$dtype": "load"}, "have a \\$dtype that is none: load"),
        ({"$dtype": {"$dtype": "int8"}}, "have a \\$dtype that is none"),
        ({"$device": "evil"}, "have a \\$device that is none: evil"),
        ({"$float": "one"}, "have a \\$float that is none: one"),
        ({"$tuple": 1}, "have a \\$tuple that is none: 1"),
        ({"$module": 1}, "have a \\$module that is none: 1"),
        ({"$module": [{}, {}, {}]}, "have a \\$module that is none"),
        ({"$counter": 1}, "have a \\$counter that is none: 1"),
    ],
)
def test_marks_that_nobody_made_are_refused(value: JSON, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("has a", "have a")):
        unflatten(value, {"here": torch.ones(1)})


def test_values_nested_too_deeply_are_refused() -> None:
    deep: JSON = 1
    for _ in range(301):
        deep = [deep]

    with pytest.raises(ValueError, match="nested too deeply"):
        unflatten(deep, {})
