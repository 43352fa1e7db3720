"""Checkpoints whose ranks hold parts of tensors: what somebody made up of them is refused."""

import contextlib
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from spotrun_trainer.checkpoint import DamagedCheckpointError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.loop.loading.restore import restore
from spotrun_trainer.parallel.division import Box, Division
from spotrun_trainer.state.flatten import Flat
from tests.unit.trainer.checkpoint.states import NAME, Held, checkpoints, tracked
from tests.unit.trainer.checkpoint.test_malice import forge

WHOLE = torch.arange(28.0).reshape(7, 4)
CUTS = [0, 3, 6, 7]
LATER = "step-20.g1"


def save_parts(place: Path | str, whole: Tensor, boxes: Sequence[Box], name: str = NAME) -> None:
    """Save as one rank for each part does."""
    with contextlib.ExitStack() as stack:
        for rank, box in enumerate(boxes):
            part = whole
            for dim, (start, size) in enumerate(zip(box.offsets, box.shape, strict=True)):
                part = part.narrow(dim, start, size)
            divided = Division(tuple(whole.shape), {"shard": 0}, box)
            flat = Flat({"held/x": part.contiguous()}, {"held": {"x": divided.mark("held/x")}})
            options: dict[str, Any] = {"shard": rank, "shards": len(boxes), "attempt": "a"}
            one = stack.enter_context(checkpoints(place, **options))
            one.save(name, flat, rank=rank, size=len(boxes), extra={"of": name})


def rows() -> list[Box]:
    return [Box((start, 0), (stop - start, 4)) for start, stop in pairwise(CUTS)]


def loaded(place: Path, name: str = NAME) -> Tensor:
    held = Held(x=torch.zeros_like(WHOLE))
    with checkpoints(place) as opened:
        opened.load(name, tracked(held=held))
    found: Tensor = held.content["x"]
    return found


def mark(manifest: dict[str, Any]) -> list[Any]:
    found: list[Any] = manifest["values"]["held"]["x"]["$part"]
    return found


def with_mark(index: int, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: mark(manifest).__setitem__(index, value)


def of_old(shape: list[Any]) -> Callable[[dict[str, Any]], None]:
    """Of marks that have no offsets."""

    def change(manifest: dict[str, Any]) -> None:
        mark(manifest)[1:] = [shape, [0]]

    return change


def test_parts_are_put_together(tmp_path: Path) -> None:
    save_parts(tmp_path, WHOLE, rows())
    assert torch.equal(loaded(tmp_path), WHOLE)


@pytest.mark.parametrize("is_contiguous", [True, False])
def test_columns_are_read_in_a_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_contiguous: bool
) -> None:
    """A call for each row of a large matrix would take longer than the bytes do."""
    whole = torch.arange(300_000.0).reshape(100_000, 3)
    save_parts(tmp_path, whole, [Box((0, 0), (100_000, 2)), Box((0, 2), (100_000, 1))])
    held = Held(x=torch.zeros(100_000, 3) if is_contiguous else torch.zeros(3, 100_000).T)
    preadv, num_calls = os.preadv, 0

    def counted(descriptor: int, buffers: Any, offset: int) -> int:
        nonlocal num_calls
        num_calls += 1
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    with checkpoints(tmp_path) as opened:
        opened.load(NAME, tracked(held=held))
    assert torch.equal(held.content["x"], whole)
    assert num_calls <= 2 * whole.nbytes // 2**20 + 4


def in_half(manifest: dict[str, Any]) -> None:
    manifest["tensors"]["held/x"] = ["int32", manifest["tensors"]["held/x"][1]]


MALICE: dict[str, tuple[int, Callable[[dict[str, Any]], object], str]] = {
    "a shape of text": (1, with_mark(1, ["7", 4]), "a .part of no shape"),
    "a shape of text, of old": (0, of_old(["7", 4]), "a .part of no shape"),
    "a shape of lists, of old": (0, of_old([[7], 4]), "a .part of no shape"),
    "a shape below zero, of old": (0, of_old([-7, 4]), "a .part of no shape"),
    "a shape with a fraction": (0, of_old([7.5, 4]), "a .part of no shape"),
    "a shape beyond numbers": (1, with_mark(1, [2**60, 4]), "a .part of no shape"),
    "a shape that is true": (1, with_mark(1, [True, 4]), "a .part of no shape"),
    "offsets of text": (1, with_mark(3, ["0", 0]), "a .part of no place"),
    "offsets outside": (1, with_mark(3, [5, 0]), "is outside of the whole"),
    "too few offsets": (1, with_mark(3, [3]), "is outside of the whole"),
    "parts that overlap": (1, with_mark(3, [2, 0]), "were found twice, and others not at all"),
    "parts that are the same": (1, with_mark(3, [0, 0]), "16 of 28 elements were found"),
    "another whole": (2, with_mark(1, [8, 4]), "its tensors are not those of the other parts"),
    "another type": (1, in_half, "its tensors are not those of the other parts"),
    "another number of parts": (1, lambda m: m.update(shards=1), "1 of 3 ranks hold a copy"),
}


@pytest.mark.parametrize("case", MALICE)
def test_parts_that_somebody_made_up_are_damage(tmp_path: Path, case: str) -> None:
    rank, edit, reason = MALICE[case]
    save_parts(tmp_path, WHOLE, rows())
    forge(tmp_path / NAME, edit, rank)
    with pytest.raises(DamagedCheckpointError, match=rf"rank-\d.json is damaged: .*{reason}"):
        loaded(tmp_path)


@pytest.mark.parametrize("case", MALICE)
def test_the_checkpoint_before_is_loaded(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rank, edit, _ = MALICE[case]
    save_parts(tmp_path, WHOLE, rows())
    save_parts(tmp_path, WHOLE + 1, rows(), LATER)
    forge(tmp_path / LATER, edit, rank)
    held = Held(x=torch.zeros_like(WHOLE))
    with checkpoints(tmp_path) as opened:
        found = restore(RankInfo(), Group(), opened, tracked(held=held), torch.device("cpu"))
    assert found is not None
    assert found.name == NAME
    assert torch.equal(held.content["x"], WHOLE)
    said = capsys.readouterr()
    assert f"{LATER}/rank-" in said.err + said.out
