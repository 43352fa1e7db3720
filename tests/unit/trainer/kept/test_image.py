from typing import Any

import pytest
import torch
from torch import nn

from spotrun_trainer.kept.image import Writer, load
from spotrun_trainer.state.tracked import Tracked
from tests.unit.trainer.kept.trainings import Parts


class Odd:
    """State of a kind that few objects have."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def state_dict(self) -> dict[str, Any]:
        return self.content

    def load_state_dict(self, content: dict[str, Any]) -> None:
        self.content = content


def tracked(**things: Any) -> Tracked:
    found = Tracked()
    for name, thing in things.items():
        found.add(name, thing)
    return found


def trained() -> Parts:
    parts = Parts()
    for _ in range(3):
        parts.model(torch.randn(4, 8)).sum().backward()
        parts.optimizer.step()
        parts.schedule.step()
    return parts


def test_a_training_comes_back_bit_by_bit() -> None:
    there, here = trained(), Parts()
    memory = Writer(tracked(**there.things)).image({"a": [1]}).to_bytes()
    assert load(memory, tracked(**here.things)) == {"a": [1]}
    assert here.digest() == there.digest()
    assert here.schedule.state_dict() == there.schedule.state_dict()
    memory.zero_()
    assert here.digest() == there.digest(), "nothing refers to the memory it came from"


def test_values_and_tensors_of_all_kinds_come_back() -> None:
    content: dict[Any, Any] = {
        "numbers": (1, 2.5, float("inf")),
        3: {"none": None},
        "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "one": torch.tensor(True),
        "across": torch.arange(6).reshape(2, 3).T,
        "conjugate": torch.tensor([1 + 2j]).conj(),
    }
    odd = Odd({})
    load(Writer(tracked(odd=Odd(content))).image({}).to_bytes(), tracked(odd=odd))
    assert odd.content.keys() == content.keys()
    for key, value in content.items():
        is_tensor = isinstance(value, torch.Tensor)
        there = odd.content[key]
        assert torch.equal(there, value) if is_tensor else there == value, key


def test_shared_weights_are_kept_once() -> None:
    model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 100, bias=False))
    alone = Writer(tracked(model=model)).image({}).size
    model[1].weight = model[0].weight
    image = Writer(tracked(model=model)).image({})
    assert alone - image.size > 39_000
    other = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 100, bias=False))
    other[1].weight = other[0].weight
    load(image.to_bytes(), tracked(model=other))
    torch.testing.assert_close(other[1].weight, model[0].weight, rtol=0, atol=0)


def test_a_state_that_grows_is_placed_anew() -> None:
    there, here = Parts(), Parts()
    writer = Writer(tracked(**there.things))
    small = writer.image({}).size
    there.model(torch.randn(4, 8)).sum().backward()
    there.optimizer.step()
    image = writer.image({})
    assert image.size > small
    load(image.to_bytes(), tracked(**here.things))
    assert here.digest() == there.digest()


def test_what_does_not_fit_is_named() -> None:
    memory = Writer(tracked(model=nn.Linear(2, 2))).image({}).to_bytes()
    with pytest.raises(ValueError, match=r"model/weight is float32\[2, 2\] in the saved state"):
        load(memory, tracked(model=nn.Linear(2, 3)))


def test_what_cannot_be_kept_is_named() -> None:
    with pytest.raises(ValueError, match="odd/a cannot be saved: it is a set"):
        Writer(tracked(odd=Odd({"a": {1}}))).image({})
