"""Weights of other programs are read by ranges, converted and renamed, or refused with a reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_saver import save as save_dcp

from spotrun_trainer.checkpoint.foreign.reading.loading import _within, load_into, prefix_of
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.checkpoint.foreign.source import Source
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import Spec
from tests.unit.trainer.checkpoint.states import is_same, save, tracked

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

Write = Callable[[Path, dict[str, Tensor]], Path]


def as_safetensors(folder: Path, state: dict[str, Tensor]) -> Path:
    safetensors.torch.save_file(state, folder / "weights.safetensors")
    return folder / "weights.safetensors"


def as_hugging_face(folder: Path, state: dict[str, Tensor]) -> Path:
    """Two files with an index, as transformers writes them."""
    half = len(state) // 2
    files = {"model-1.safetensors": [*state][:half], "model-2.safetensors": [*state][half:]}
    for file, names in files.items():
        safetensors.torch.save_file({name: state[name] for name in names}, folder / file)
    index = {name: file for file, names in files.items() for name in names}
    write_index(folder, index)
    return folder


def write_index(folder: Path, weight_map: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def as_torch(folder: Path, state: dict[str, Tensor]) -> Path:
    torch.save(state, folder / "weights.pt")
    return folder / "weights.pt"


def as_dcp(folder: Path, state: dict[str, Tensor]) -> Path:
    save_dcp(state, checkpoint_id=folder, no_dist=True)
    return folder


def as_ours(folder: Path, state: dict[str, Tensor]) -> Path:
    model = nn.Module()
    for name, one in state.items():
        model.register_buffer(name, one)
    save(folder, tracked(model=model).flatten(), size=3)
    return folder


WAYS = [as_safetensors, as_hugging_face, as_torch, as_dcp, as_ours]
STATE = {
    "matrix": torch.arange(35.0).reshape(5, 7),
    "cube": torch.arange(60, dtype=torch.int16).reshape(3, 4, 5),
    "narrow": torch.arange(9, dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "none": torch.empty(0, 3),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    folders = {way.__name__: tmp_path_factory.mktemp(way.__name__) for way in WAYS}
    return {way.__name__: open_source(way(folders[way.__name__], STATE)) for way in WAYS}


def test_all_name_the_same_tensors(sources: dict[str, Source]) -> None:
    for source in sources.values():
        assert source.specs == {name: Spec.of(one) for name, one in STATE.items()}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_part_of_any_tensor(sources: dict[str, Source], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*STATE]))
    runs = [
        sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size))))
        for size in STATE[name].shape
    ]
    box = Box(tuple(first for first, _ in runs), tuple(last - first for first, last in runs))
    expected = STATE[name][tuple(slice(*run) for run in runs)]
    for way, source in sources.items():
        target = torch.empty(box.shape, dtype=expected.dtype)
        source.fill(name, box, target)
        assert is_same(target, expected), way


@pytest.mark.parametrize("write", [as_safetensors, as_torch, as_dcp, as_ours])
def test_no_more_is_read_than_is_asked_for(tmp_path: Path, write: Write) -> None:
    whole = torch.arange(1 << 20, dtype=torch.float32).reshape(1024, 1024)
    source = open_source(write(tmp_path, {"x": whole}))
    before = bytes_read()
    for start in (0, 512):
        target = torch.empty(64, 1024)
        source.fill("x", Box((start, 0), (64, 1024)), target)
        assert is_same(target, whole[start : start + 64])

    assert bytes_read() - before < 1.2 * 2 * 64 * 4096


def bytes_read() -> int:
    """The bytes that this process has had from files, so far; pages that are mapped are none."""
    return int(Path("/proc/self/io").read_text().split()[1])


class Tied(nn.Module):
    """A model with tied weights and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.into.weight


def state_of(seed: int, prefix: str = "", dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    model = Tied()
    model.get_buffer("norm.running_mean").normal_()
    state = {f"{prefix}{name}": one.clone() for name, one in model.state_dict().items()}
    return {name: one.to(dtype) if one.is_floating_point() else one for name, one in state.items()}


@pytest.mark.parametrize("prefix", ["", "model.", "app.model."])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_is_filled(tmp_path: Path, prefix: str, dtype: torch.dtype) -> None:
    state = state_of(2, prefix, dtype)
    del state[f"{prefix}out.weight"]  # as Hugging Face leaves tied weights out
    state["optimizer.into.weight"] = torch.ones(3)
    model = Tied()
    before = model.into.weight
    loaded = load_into(model, open_source(as_safetensors(tmp_path, state)))

    assert model.into.weight is before is model.out.weight
    assert (loaded.prefix, loaded.tensors) == (prefix, 6)
    for name, one in model.state_dict().items():
        expected = state.get(f"{prefix}{name}", state[f"{prefix}into.weight"])
        assert torch.equal(one, expected.to(one.dtype)), name


def test_all_that_does_not_fit_is_said_before_anything_changes(tmp_path: Path) -> None:
    state = state_of(2)
    del state["norm.bias"]
    state["norm.weight"] = torch.ones(9)
    state["norm.num_batches_tracked"] = torch.tensor(1.5)
    model = Tied()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    source = open_source(as_torch(tmp_path, state))
    with pytest.raises(ValueError, match=r"weights: norm\.bias; norm\.weight is float32\[9") as e:
        load_into(model, source)

    assert "num_batches_tracked is float32[] in the weights, but int64[] in" in str(e.value)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())


def test_what_is_missing_stays_where_that_is_allowed(tmp_path: Path) -> None:
    state = state_of(2)
    del state["norm.bias"]
    model = Tied()
    loaded = load_into(model, open_source(as_torch(tmp_path, state)), strict=False)

    assert loaded.missing == ["norm.bias"]
    assert torch.equal(model.norm.bias, torch.zeros(4))
    assert torch.equal(model.into.weight, state["into.weight"])


@pytest.mark.parametrize(
    ("names", "known", "expected"),
    [
        (["a.w", "b.w"], ["a.w", "b.w", "ema.a.w", "ema.b.w"], ""),
        (["a.w", "b.w"], ["model.a.w", "model.b.w", "opt.a.w"], "model."),
        (["weight"], ["lm_weight", "lm.weight"], "lm."),
        (["a.w"], ["b.w"], ""),
    ],
)
def test_the_prefix_by_which_most_is_known(
    names: list[str], known: list[str], expected: str
) -> None:
    assert prefix_of(names, dict.fromkeys(known, Spec("float32", ()))) == expected


def test_a_part_of_a_part_is_where_both_begin() -> None:
    assert _within(Box((2, 8), (3, 4)), Box((1, 0), (1, 4))) == Box((3, 8), (1, 4))


def test_two_models_are_told_apart_by_the_user(tmp_path: Path) -> None:
    states = state_of(1, "model.") | state_of(2, "ema.")
    source = open_source(as_dcp(tmp_path, states))
    model = Tied()
    with pytest.raises(ValueError, match=r"several times: .* prefix=, one of ema\., model\."):
        load_into(model, source)
    load_into(model, source, prefix="ema.")

    assert torch.equal(model.into.weight, states["ema.into.weight"])


def test_a_nested_dict_of_torch_has_names_with_dots(tmp_path: Path) -> None:
    state: Any = {"epoch": 3, "state_dict": state_of(2)}
    torch.save(state, tmp_path / "weights.ckpt")
    model = Tied()
    loaded = load_into(model, open_source(tmp_path / "weights.ckpt"))

    assert loaded.prefix == "state_dict."
    assert torch.equal(
        model.get_buffer("norm.running_mean"), state["state_dict"]["norm.running_mean"]
    )
