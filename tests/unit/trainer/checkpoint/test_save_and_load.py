"""What some ranks saved any number loads, bit for bit, and others' tools can read it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from spotrun_trainer.checkpoint import DamagedCheckpointError
from spotrun_trainer.state.flatten import DTYPES
from tests.unit.trainer.checkpoint.states import (
    NAME,
    Held,
    as_bytes,
    checkpoints,
    copied,
    is_same,
    same,
    save,
    small_training,
    tracked,
)


def large_tensors() -> dict[str, Tensor]:
    """Larger than what stays whole, so that ranks share each."""
    dice = torch.Generator().manual_seed(3)
    return {
        name: torch.randint(256, (40_000 * dtype.itemsize,), dtype=torch.uint8, generator=dice)
        .clamp(max=1 if dtype is torch.bool else 255)
        .view(dtype)
        .reshape(200, 200)
        for name, dtype in DTYPES.items()
    }


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_training_is_loaded_as_it_was_saved(tmp_path: Path, size: int) -> None:
    saved, target = small_training(1), small_training(2)
    save(tmp_path, saved.flatten(), size=size)

    with checkpoints(tmp_path) as opened:
        assert opened.load(NAME, target) == {"of": NAME}

    assert same(saved.flatten(), target.flatten())


@pytest.mark.parametrize("size", [1, 3])
def test_tensors_of_every_type_come_back_bit_for_bit(tmp_path: Path, size: int) -> None:
    small = {f"{name} small": one[0, :3].clone() for name, one in large_tensors().items()}
    scalars = {f"{name} scalar": one[0, 0].clone() for name, one in large_tensors().items()}
    empty = {f"{name} empty": one[:0].clone() for name, one in large_tensors().items()}
    saved = tracked(held=Held(**large_tensors(), **small, **scalars, **empty))
    target = tracked(held=Held())
    save(tmp_path, saved.flatten(), size=size)

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, target)

    assert same(saved.flatten(), target.flatten())


LAYOUTS = {
    "channels last": lambda one: one.view(8, 25, 20, 10).to(memory_format=torch.channels_last),
    "transposed": lambda one: one.t(),
    "every second": lambda one: one[:, ::2],
    "part of a larger one": lambda one: one[50:150],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "float8_e4m3fn", "bool"])
def test_elements_may_lie_in_any_order_on_either_side(
    tmp_path: Path, layout: str, dtype: str
) -> None:
    content = large_tensors()[dtype]
    laid_out = LAYOUTS[layout](content)
    save(tmp_path, tracked(held=Held(x=laid_out)).flatten(), size=3)

    for live in (torch.zeros_like(laid_out), torch.zeros(laid_out.shape, dtype=laid_out.dtype)):
        with checkpoints(tmp_path) as opened:
            opened.load(NAME, tracked(held=Held(x=live)))

        assert is_same(laid_out, live)


def test_conjugated_views_are_saved_as_what_they_show(tmp_path: Path) -> None:
    shown = torch.tensor([1 + 2j, 3 - 4j]).conj()
    save(tmp_path, tracked(held=Held(x=shown)).flatten())
    target = Held()

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, tracked(held=target))

    assert shown.tolist() == target.content["x"].tolist()


def test_tied_weights_are_written_once_and_stay_tied(tmp_path: Path) -> None:
    saved, target = small_training(1), small_training(2)
    save(tmp_path, saved.flatten())

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, target)

    written = load_file(tmp_path / NAME / "rank-0.safetensors")
    assert "model/0.weight" in written
    assert "model/2.weight" not in written
    tensors = target.flatten().tensors
    assert tensors["model/0.weight"].data_ptr() == tensors["model/2.weight"].data_ptr()


def test_weights_that_were_tied_fill_two_that_are_not(tmp_path: Path) -> None:
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    untied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    save(tmp_path, tracked(model=tied).flatten())

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, tracked(model=untied))

    (weight,), copies = tied.parameters(), list(untied.parameters())
    assert all(torch.equal(weight, one) for one in copies)


@pytest.mark.parametrize("size", [1, 2])
def test_the_files_are_safetensors_that_others_read(tmp_path: Path, size: int) -> None:
    tensors = large_tensors()
    save(tmp_path, tracked(held=Held(**tensors)).flatten(), size=size)

    read: dict[str, list[Tensor]] = {}
    for rank in range(size):
        for name, one in load_file(tmp_path / NAME / f"rank-{rank}.safetensors").items():
            read.setdefault(name.removeprefix("held/").partition("[")[0], []).append(one)

    for name, tensor in tensors.items():
        parts = torch.cat([as_bytes(part) for part in read[name]])
        assert torch.equal(as_bytes(tensor), parts)
        if size == 1 and name != "complex128":  # which safetensors does not know
            assert is_same(tensor, read[name][0])


def test_ranks_write_parts_of_about_the_same_length(tmp_path: Path) -> None:
    save(tmp_path, tracked(held=Held(**large_tensors())).flatten(), size=4)

    sizes = [path.stat().st_size for path in (tmp_path / NAME).glob("*.safetensors")]

    assert len(sizes) == 4
    assert max(sizes) / min(sizes) < 1.05


def test_extra_is_json_and_comes_back(tmp_path: Path) -> None:
    extra = {"step": 3, "data": {"epoch": 1, "samples": [1, 2]}, "mode": None}
    with checkpoints(tmp_path) as opened:
        opened.save(NAME, small_training().flatten(), rank=0, size=1, extra=extra)
        assert opened.wait(10)

        assert extra == opened.load(NAME, small_training(2))


@pytest.mark.parametrize("bad", [object(), float("nan"), torch.ones(1)])
def test_extra_that_is_no_json_is_refused_at_once(tmp_path: Path, bad: object) -> None:
    with checkpoints(tmp_path) as opened, pytest.raises((TypeError, ValueError), match="JSON"):
        opened.save(NAME, small_training().flatten(), rank=0, size=1, extra={"bad": bad})


def test_a_checkpoint_of_something_else_is_refused_before_anything_changes(tmp_path: Path) -> None:
    save(tmp_path, small_training().flatten())
    target = tracked(model=nn.Linear(3, 3), opt=Held())
    before = copied(target.flatten())

    with (
        checkpoints(tmp_path) as opened,
        pytest.raises(
            ValueError,
            match=rf"{NAME} cannot be loaded: the state does not fit what is tracked: "
            r"tensors missing in the saved state: model/bias, model/weight; "
            r"tensors unknown to this script: model/0",
        ),
    ):
        opened.load(NAME, target)

    assert same(before, target.flatten())


def test_a_load_needs_no_memory_beside_the_tensors(tmp_path: Path) -> None:
    live = torch.arange(4_000_000, dtype=torch.float32)
    save(tmp_path, tracked(held=Held(x=live)).flatten())
    place = live.data_ptr()
    expected = live.clone()
    live.zero_()
    target = Held(x=live)

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, tracked(held=target))

    assert place == target.content["x"].data_ptr()
    assert torch.equal(expected, live)


def test_what_is_not_there_is_not_complete(tmp_path: Path) -> None:
    with checkpoints(tmp_path / "nowhere") as opened:
        assert opened.newest() is None
        assert opened.complete() == []
        with pytest.raises(DamagedCheckpointError, match=r"step-5\.g1 was never completed"):
            opened.load("step-5.g1", small_training())


def test_the_newest_has_most_steps_and_half_made_ones_do_not_count(tmp_path: Path) -> None:
    flat = small_training().flatten()
    for name in ("step-9.g2", "step-10.g1", "step-9.g1"):
        save(tmp_path, flat, name)
    save(tmp_path, flat, "step-11.g1", size=2, ranks=range(1))
    (tmp_path / "step-12.g1").mkdir()
    (tmp_path / "step-13.g1").write_text("a file")
    (tmp_path / "step-14.g1").symlink_to("step-10.g1")

    with checkpoints(tmp_path) as opened:
        assert opened.newest() == "step-10.g1"
        assert opened.complete() == ["step-10.g1", "step-9.g2", "step-9.g1"]


def test_pruning_leaves_the_newest_and_what_may_be_in_the_making(tmp_path: Path) -> None:
    flat = small_training().flatten()
    for name in ("step-1.g1", "step-3.g1", "step-4.g1", "step-5.g1", "step-7.g1"):
        save(tmp_path, flat, name)
    for name in ("step-2.g1", "step-6.g1"):
        save(tmp_path, flat, name, size=2, ranks=range(1))
    (tmp_path / "step-1.g1" / "notes.txt").write_text("a person's own")

    with checkpoints(tmp_path) as opened:
        opened.prune("step-5.g1", world_number=1)

    assert [path.name for path in (tmp_path / "step-1.g1").iterdir()] == ["notes.txt"]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["step-1.g1", "step-4.g1", "step-5.g1", "step-6.g1", "step-7.g1"]


def test_half_made_checkpoints_of_an_older_world_go_with_the_next_acknowledged_one(
    tmp_path: Path,
) -> None:
    flat = small_training().flatten()
    save(tmp_path, flat, "step-5.g1", size=2, ranks=range(1))
    save(tmp_path, flat, "step-5.g2", size=2)

    with checkpoints(tmp_path) as opened:
        opened.prune("step-5.g2", world_number=2)

    assert [path.name for path in tmp_path.iterdir()] == ["step-5.g2"]


def test_manifests_say_who_wrote_what(tmp_path: Path) -> None:
    save(tmp_path, small_training().flatten(), size=2, attempt="a")

    manifests = [json.loads((tmp_path / NAME / f"rank-{rank}.json").read_text()) for rank in (0, 1)]

    assert [(m["attempt"], m["rank"], m["size"]) for m in manifests] == [("a", 0, 2), ("a", 1, 2)]
    assert ["values" in manifest for manifest in manifests] == [True, False]
