"""What was found out about a state is kept as long as it holds, and no longer."""

import copy
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.flatten import Flat, Layout, Spec
from spotrun_trainer.state.tracked import Tracked

WAIT_SECONDS = 60.0


class Held:
    """A thing of one's own, with dicts of tensors at two depths."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {
            "flat": {"x": torch.zeros(2, 2), "y": torch.ones(2, 2)},
            "scattered": {"z": (z := torch.arange(6.0).reshape(3, 2).t()), "again": z[:]},
            "deep": {0: {"a": torch.zeros(3)}, 1: {"a": torch.ones(3)}},
            "rate": 0.1,
        }

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state = state_dict


def stepped(
    register: Callable[[nn.Module, Callable[..., None]], Any] | None = None,
) -> tuple[nn.Module, torch.optim.Optimizer, Held, Tracked]:
    """A model after one step, and what has been asked for once."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    if register is not None:
        register(model, lambda *_: None)
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    held, tracked = Held(), Tracked()
    things: dict[str, Any] = {"model": model, "opt": optimizer, "held": held}
    for name, thing in things.items():
        tracked.add(name, thing)
    tracked.flatten()
    return model, optimizer, held, tracked


def anew(*things: Any) -> Tracked:
    """Of the same things, asked for the first time."""
    tracked = Tracked()
    for name, thing in zip(("model", "opt", "held"), things, strict=True):
        tracked.add(name, thing)
    return tracked


def test_the_second_time_no_tensor_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, tracked = stepped()
    layout = tracked.flatten().layout
    asked: list[object] = []
    monkeypatch.setattr(Spec, "of", asked.append)
    monkeypatch.setattr(Layout, "of", asked.append)
    monkeypatch.setattr("spotrun_trainer.state.flatten._unfit", asked.append)
    monkeypatch.setattr(nn.Module, "_save_to_state_dict", asked.append)
    monkeypatch.setattr(torch.optim.Optimizer, "state_dict", asked.append)
    assert tracked.flatten().layout is layout
    assert asked == []


def replace_by_another_type(_model: Any, optimizer: Any, _held: Held) -> None:
    state = next(iter(optimizer.state.values()))
    state["exp_avg"] = state["exp_avg"].double()


def turn_in_place(model: Any, _optimizer: Any, _held: Held) -> None:
    model[0].weight.data = model[0].weight.data.t()


def turn_what_stays(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["flat"]["y"].t_()


def resize_what_stays(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["flat"]["y"].resize_(1, 2)


def unsqueeze_what_stays(_model: Any, optimizer: Any, _held: Held) -> None:
    next(iter(optimizer.state.values()))["exp_avg"].unsqueeze_(0)


def put_elsewhere(_model: Any, optimizer: Any, _held: Held) -> None:
    state = next(iter(optimizer.state.values()))
    state["exp_avg"].data = state["exp_avg"].data.clone().fill_(7)


def tie(model: Any, _optimizer: Any, _held: Held) -> None:
    model[2].weight.data = model[0].weight.data


def replace_by_a_like_one(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["flat"]["x"] = torch.full((2, 2), 5.0)
    held.state["deep"][1] = dict.fromkeys(held.state["deep"][1], torch.full((3,), 5.0))


def view_as_another_type(_model: Any, _optimizer: Any, held: Held) -> None:
    y = held.state["flat"]["y"]  # it stays where it is, and has the same shape
    y.data = y.data.view(torch.int32 if y.dtype == torch.float32 else torch.float32)


def change_strides_alone(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["scattered"]["again"].as_strided_((2, 3), (1, 1))  # no more the same as z


def add(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["deep"][2] = {"a": torch.ones(1)}


def rename(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["deep"][1] = {f"{key}b": one for key, one in held.state["deep"][1].items()}


def renumber(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["deep"] = dict(zip((0, True), held.state["deep"].values(), strict=False))


def change_a_value(_model: Any, optimizer: Any, held: Held) -> None:
    held.state["rate"] = optimizer.param_groups[0]["lr"] = 0.01


def ask_for_gradients(_model: Any, _optimizer: Any, held: Held) -> None:
    held.state["flat"]["x"] = torch.ones(2, 2, requires_grad=True)


def train(model: Any, optimizer: Any, _held: Held) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
        for state in optimizer.state.values():
            state["exp_avg"].mul_(2.0)


def count_versions(model: Any, _optimizer: Any, _held: Held) -> None:
    model[0]._version = True  # which is equal to 1, and is not saved as that


def turn_a_parameter_into_a_buffer(model: Any, _optimizer: Any, _held: Held) -> None:
    weight = model[2].weight.data  # the same memory, which a forward pass may change now
    del model[2].weight
    model[2].register_buffer("weight", weight)


def register_a_buffer(model: Any, _optimizer: Any, _held: Held) -> None:
    model[0].register_buffer("mask", torch.ones(2))


def leave_a_buffer_out(model: Any, _optimizer: Any, _held: Held) -> None:
    model[1].register_buffer("running_mean", model[1].running_mean, persistent=False)


def drop_a_bias(model: Any, _optimizer: Any, _held: Held) -> None:
    model[1].bias = None


def replace_a_parameter(model: Any, _optimizer: Any, _held: Held) -> None:
    model[0].weight = nn.Parameter(torch.full((3, 3), 2.0))


def freeze(model: Any, _optimizer: Any, _held: Held) -> None:
    model.requires_grad_(requires_grad=False)


def convert(model: Any, _optimizer: Any, _held: Held) -> None:
    model.to(torch.float64)


def stretch(model: Any, _optimizer: Any, _held: Held) -> None:
    model[2].weight.data = torch.arange(6.0)[::2].expand(3, 3)


def set_to_other_memory(model: Any, _optimizer: Any, _held: Held) -> None:
    weight = model[0].weight.detach()
    with torch.no_grad():
        model[0].weight.set_(torch.full_like(weight, 3.0))


def add_a_module(model: Any, _optimizer: Any, _held: Held) -> None:
    model.append(nn.Linear(1, 1))


def rename_a_module(model: Any, _optimizer: Any, _held: Held) -> None:
    model._modules = {f"{name}b": child for name, child in model._modules.items()}


def rename_a_parameter(model: Any, _optimizer: Any, _held: Held) -> None:
    own = model._modules["0"]._parameters
    own.update({f"{name}b": own.pop(name) for name in list(own)})


def share_a_module(model: Any, _optimizer: Any, _held: Held) -> None:
    model.append(model[0])


def empty_a_place(model: Any, _optimizer: Any, _held: Held) -> None:
    model.add_module("1", None)


def exchange_two(model: Any, _optimizer: Any, _held: Held) -> None:
    first = model._modules.pop("0")
    model._modules["0"] = first


def save_by_a_hook(model: Any, _optimizer: Any, _held: Held) -> None:
    def hook(_module: Any, state: dict[str, Any], *_: Any) -> None:
        state["more"] = torch.ones(1)

    model._modules["2"].register_state_dict_post_hook(hook)


def save_by_an_own_method(model: Any, _optimizer: Any, _held: Held) -> None:
    own = {"only": torch.ones(2)}
    model.state_dict = lambda: own


def save_by_a_class(model: Any, _optimizer: Any, _held: Held) -> None:
    model[0].__class__ = WithMore


class WithMore(nn.Linear):
    """A module that saves more than tensors."""

    @override
    def get_extra_state(self) -> dict[str, int]:
        return {"more": 1}

    @override
    def set_extra_state(self, state: dict[str, int]) -> None:
        pass


def train_another_parameter(model: Any, optimizer: Any, _held: Held) -> None:
    parameter = optimizer.param_groups[0]["params"].pop(0)
    optimizer.state.pop(parameter, None)
    optimizer.add_param_group({"params": [parameter], "lr": 0.5})


def train_in_another_order(_model: Any, optimizer: Any, _held: Held) -> None:
    optimizer.param_groups[0]["params"].reverse()


def forget_what_was_learnt(_model: Any, optimizer: Any, _held: Held) -> None:
    optimizer.state.clear()


def learn_more(_model: Any, optimizer: Any, _held: Held) -> None:
    for state in optimizer.state.values():
        state["more"] = torch.ones(1)


def save_an_optimizer_by_a_hook(_model: Any, optimizer: Any, _held: Held) -> None:
    def hook(_optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "more": 1}

    optimizer.register_state_dict_post_hook(hook)


LAYOUT_CHANGES = (
    *(replace_by_another_type, turn_in_place, put_elsewhere, tie, replace_by_a_like_one),
    *(turn_what_stays, resize_what_stays, unsqueeze_what_stays, view_as_another_type),
    *(add, rename, renumber, change_a_value, ask_for_gradients, train, count_versions),
    *(turn_a_parameter_into_a_buffer, freeze, convert, set_to_other_memory, replace_a_parameter),
)
CHANGES = (
    *LAYOUT_CHANGES,
    *(register_a_buffer, leave_a_buffer_out, drop_a_bias, stretch, change_strides_alone),
    *(rename_a_module, rename_a_parameter, train_in_another_order, add_a_module),
    *(share_a_module, empty_a_place, exchange_two),
    *(save_by_a_hook, save_by_an_own_method, save_by_a_class, save_an_optimizer_by_a_hook),
    *(train_another_parameter, forget_what_was_learnt, learn_more),
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("times", [1, 2])  # from the second on it knows the objects
def test_a_change_is_seen(change: Callable[..., None], times: int) -> None:
    *things, tracked = stepped()
    for _ in range(times - 1):
        tracked.flatten()
    change(*things)
    for _ in range(2):  # also after what was seen is known
        assert_flat_as_anew(tracked, things)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_of_a_module_that_has_a_say_in_its_state(
    change: Callable[..., None],
) -> None:
    *things, tracked = stepped(nn.Module.register_state_dict_pre_hook)
    change(*things)
    for _ in range(2):
        assert_flat_as_anew(tracked, things)


@given(changes=st.lists(st.sampled_from(LAYOUT_CHANGES), min_size=1, max_size=8))
def test_each_save_has_what_there_is_then(changes: Sequence[Callable[..., None]]) -> None:
    *things, tracked = stepped()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder, keep=1)
        for number, change in enumerate(changes, 1):
            change(*things)
            flat = assert_flat_as_anew(tracked, things)
            checkpoints.save(f"step-{number}.g1", flat, rank=0, size=1, extra={})
            assert checkpoints.wait(WAIT_SECONDS)
            loaded = emptied(copy.deepcopy(things))
            checkpoints.load(f"step-{number}.g1", loaded)
            assert_equal(loaded.flatten(), flat)
        checkpoints.close()


def emptied(things: list[Any]) -> Tracked:
    """The same things, without what they have learnt."""
    for tensor in anew(*things).flatten().tensors.values():
        tensor.zero_()
    *_, held = things
    held.state = {}
    return anew(*things)


def assert_flat_as_anew(tracked: Tracked, things: list[Any]) -> Flat:
    found, expected = tracked.flatten(), anew(*things).flatten()
    assert found.layout == expected.layout
    assert found.volatile == expected.volatile
    assert_equal(found, expected)
    return found


def assert_equal(found: Flat, expected: Flat) -> None:
    assert repr(found.values) == repr(expected.values)  # 1 is not True
    assert list(found.tensors) == list(expected.tensors)
    for name, tensor in found.tensors.items():
        assert tensor.dtype == expected.tensors[name].dtype
        assert torch.equal(tensor, expected.tensors[name])


def test_what_cannot_be_saved_is_refused_also_later() -> None:
    *_, held, tracked = stepped()
    held.state["flat"]["x"] = torch.zeros(2, 2).to_sparse()
    for _ in range(2):
        with pytest.raises(ValueError, match="held/flat/x cannot be saved"):
            tracked.flatten()


@pytest.mark.parametrize("name", ["state_dict", "_save_to_state_dict", "get_extra_state"])
def test_a_class_that_gets_a_method_of_its_own_is_asked(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    *things, tracked = stepped()
    asked: list[object] = []
    plain = getattr(nn.Module, name)
    is_extra = name == "get_extra_state"

    def own(*arguments: Any, **more: Any) -> Any:
        asked.append(arguments[0])
        return {"a": 1} if is_extra else plain(*arguments, **more)

    monkeypatch.setattr(nn.Linear, name, own)
    assert_flat_as_anew(tracked, things)
    assert asked


def test_data_that_is_exchanged_after_the_call_is_not_what_is_saved() -> None:
    model, *_, tracked = stepped()
    weight = cast("Any", model)[0].weight
    expected = weight.detach().clone()
    flat = tracked.flatten()
    weight.data = torch.zeros(3, 3)  # as in an evaluation with averaged weights
    assert torch.equal(flat.tensors["model/0.weight"], expected)


def test_what_was_replaced_is_not_kept_in_memory() -> None:
    *_, held, tracked = stepped()
    old: Tensor = held.state["flat"].pop("x")
    seen = weakref.ref(old)
    del old
    assert seen() is None
    assert "held/flat/x" not in tracked.flatten().tensors
