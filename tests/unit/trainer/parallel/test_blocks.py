"""Which parts of a model are its blocks."""

import pytest
from torch import nn

from spotrun_trainer.parallel.blocks import blocks_of


class Layer(nn.Module):
    """A transformer's layer with experts."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Linear(1, 1)
        self.experts = nn.ModuleList(nn.Linear(1, 1) for _ in range(2))


class Model(nn.Module):
    """A model whose part `inside` has what is named `given`."""

    def __init__(self, given: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(1, 1)
        self.inside = nn.Sequential(given)


def listed(*of: nn.Module) -> nn.ModuleList:
    return nn.ModuleList(of)


SHARED = nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (nn.Linear(1, 1), []),
        (nn.ModuleDict({"layers": listed(Layer(), Layer())}), ["0.layers.0", "0.layers.1"]),
        (listed(Layer(), Layer()), ["0.0", "0.1"]),
        (nn.ModuleDict({"4": Layer(), "5": Layer()}), ["0.4", "0.5"]),
        (nn.ModuleDict({"0": nn.Linear(1, 1), "head": nn.Linear(1, 1)}), []),
        (nn.ModuleDict(), []),
        (listed(listed(Layer(), Layer()), listed(Layer())), ["0.0.0", "0.0.1", "0.1.0"]),
        (listed(nn.ModuleDict({"a": Layer(), "b": Layer()})), ["0.0.a", "0.0.b"]),
        (listed(SHARED, Layer(), SHARED), ["0.0", "0.1"]),
        (listed(), []),
    ],
    ids=[
        "no list",
        "a list in a dict",
        "layers that have lists",
        "a dict by numbers",
        "a dict by other names",
        "an empty dict",
        "a list of lists",
        "a list of dicts",
        "a block that is used twice",
        "an empty list",
    ],
)
def test_blocks_are_the_entries_of_the_outermost_lists(
    given: nn.Module, expected: list[str]
) -> None:
    model = Model(given)
    names = {id(one): name for name, one in model.named_modules()}
    assert [names[id(one)] for one in blocks_of([model])] == [f"inside.{one}" for one in expected]


def test_a_model_may_be_a_list_itself() -> None:
    layers = listed(Layer(), Layer())
    assert list(blocks_of([layers, Model(layers)])) == list(layers)
