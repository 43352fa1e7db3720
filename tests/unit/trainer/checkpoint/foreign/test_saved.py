"""A checkpoint of any mesh is read as whole tensors, range by range."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spotrun_trainer import Parallel
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.source import pieces
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.tools.command_line import main
from spotrun_trainer.checkpoint.tools.listing import writers_of
from spotrun_trainer.state.flatten import DTYPES
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.checkpoint.states import save, small_training
from tests.unit.trainer.run.fully_sharded import FullySharded, train_and_show, whole_state
from tests.unit.trainer.run.sharded import Sharded, train_part


def opened(folder: Path) -> Saved:
    place = Place(folder)
    return Saved(place, place.names()[-1])


def read(saved: Saved, path: str, most_bytes: int) -> Tensor:
    """Read a tensor in pieces, laid end to end."""
    spec = saved.specs[path]
    found = []
    for box in pieces(spec.shape, spec.itemsize, most_bytes):
        found.append(torch.empty(box.shape, dtype=DTYPES[spec.dtype]))
        saved.fill(path, box, found[-1])
    return torch.cat([one.reshape(-1) for one in found]).reshape(spec.shape)


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 40))
def test_pieces_follow_each_other_and_are_small(shape: list[int], most: int) -> None:
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    boxes = list(pieces(tuple(shape), 8, 8 * most))
    places = [
        tuple(slice(at, at + size) for at, size in zip(box.offsets, box.shape, strict=True))
        for box in boxes
    ]
    found = torch.cat([whole[place].reshape(-1) for place in places])

    assert torch.equal(found, whole.reshape(-1))
    assert all(box.numel <= most for box in boxes)


@pytest.mark.parametrize(
    ("size", "mesh", "writers"),
    [
        (2, Parallel(2), "2 processes: 1 copy in 2 parts (shard)"),
        (4, Parallel(2), "4 processes: 2 copies in 2 parts (shard)"),
        (4, Parallel(2, pipeline=2), "4 processes: 1 copy in 4 parts (2 stages, shard)"),
    ],
)
def test_whole_tensors_of_a_mesh(tmp_path: Path, size: int, mesh: Parallel, writers: str) -> None:
    plan = FullySharded(**asdict(mesh), rows=7, total=2, global_batch=48, checkpoint=str(tmp_path))
    plan = replace(plan, microbatch=4)
    ended = run_world(size, train_and_show, plan)
    assert [one.error for one in ended] == [""] * size, ended[0].said
    expected = whole_state([one.value for one in ended[: plan.processes]])
    saved = opened(tmp_path)
    (names,) = saved.parameters["optimizer"]
    numbers = {name.partition("/")[2]: f"{number}" for number, name in enumerate(names)}
    expected = {
        "/".join(numbers.get(one, one) for one in path.split("/")) if "/state/" in path else path: x
        for path, x in expected.items()
    }

    assert set(saved.specs) == set(expected)
    for path, whole in expected.items():
        assert torch.equal(read(saved, path, 64), whole), path
    assert writers_of(saved) == writers
    assert saved.values["model"] == whole_values(expected, "model", saved)


def whole_values(expected: dict[str, Tensor], name: str, saved: Saved) -> object:
    """The form of a module's state whose tensors one process holds."""
    own = {path: {"$tensor": path} for path in expected if path.startswith(f"{name}/")}
    value = saved.values[name]
    assert isinstance(value, dict)
    assert isinstance(value["$module"], list)
    state = {path.partition("/")[2]: mark for path, mark in own.items()}
    return {"$module": [state, value["$module"][1]]}


def test_shared_storage_is_read_under_both_names(tmp_path: Path) -> None:
    flat = small_training().flatten()
    save(tmp_path, flat, size=3)
    saved = opened(tmp_path)

    assert saved.aliases == {"model/2.weight": "model/0.weight"}
    assert torch.equal(read(saved, "model/2.weight", 100), flat.tensors["model/0.weight"])


def test_parts_that_a_script_divides_by_itself_are_no_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Sharded(shards=2, total=2, checkpoint=str(tmp_path))
    ended = run_world(2, train_part, plan)
    assert [one.error for one in ended] == ["", ""], ended[0].said
    saved = opened(tmp_path)
    divided = next(path for path in saved.specs if path.startswith("model/"))

    with pytest.raises(ValueError, match=r"different tensors .* only the script knows"):
        read(saved, divided, 100)
    assert main(["checkpoints", "verify", str(tmp_path)]) == 0
    assert "whole" in capsys.readouterr().out
    for kind in ("torch", "dcp"):
        output = tmp_path / kind
        assert main(["export", str(tmp_path), "--format", kind, "--output", str(output)]) == 2
        assert "only the script knows how to put it together" in capsys.readouterr().err
        assert not output.exists()
