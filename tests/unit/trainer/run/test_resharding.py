"""A checkpoint of one mesh is read into every other: the whole state has the same bits."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.fully_sharded import (
    FullySharded,
    train_and_show,
    train_fully_sharded,
    whole_state,
)
from tests.unit.trainer.run.sharded import Sharded, train_part

ONE = (1, FullySharded(shard=1))
MESHES = {
    "one": ONE,
    "two copies": (2, FullySharded(shard=1)),
    "2 shards": (2, FullySharded(shard=2)),
    "2 copies of 2 shards": (4, FullySharded(shard=2)),
    "3 shards": (3, FullySharded(shard=3)),
    "2 tensor": (2, FullySharded(shard=1, tensor=2)),
    "2 x 2": (4, FullySharded(shard=2, tensor=2)),
    "4 shards": (4, FullySharded(shard=4)),
    "3 x 2": (6, FullySharded(shard=3, tensor=2)),
    "2 stages": (2, FullySharded(shard=1, pipeline=2)),
    "4 stages": (4, FullySharded(shard=1, pipeline=4)),
    "2 stages of 2 shards": (4, FullySharded(shard=2, pipeline=2)),
    "2 stages of 2 tensor": (4, FullySharded(shard=1, tensor=2, pipeline=2)),
}
SAMPLES = 48  # a step's, dealt in fours to as many as 4 parts
PAIRS = [
    ("2 shards", "one"),
    ("one", "2 shards"),
    ("4 shards", "2 copies of 2 shards"),
    ("2 copies of 2 shards", "3 shards"),
    ("3 shards", "4 shards"),
    ("two copies", "4 shards"),
    ("2 x 2", "one"),
    ("2 tensor", "2 x 2"),
    ("3 shards", "2 tensor"),
    ("3 x 2", "one"),
    ("2 x 2", "3 x 2"),
    ("one", "4 stages"),
    ("2 stages", "one"),
    ("4 stages", "2 stages of 2 shards"),
    ("2 stages of 2 tensor", "3 shards"),
    ("2 shards", "2 stages"),
]


def shown(ended: Sequence[Ended], size: int) -> list[Any]:
    assert [one.error for one in ended] == [""] * size, "\n".join(one.said for one in ended)
    return [one.value for one in ended]


def in_world(size: int, plan: FullySharded) -> list[Any]:
    """What the processes hold after the training; `size` of them."""
    if size == 1:
        return shown([run_alone(train_and_show, plan)], 1)
    return shown(run_world(size, train_and_show, plan), size)


@pytest.mark.parametrize(("there", "here"), PAIRS)
def test_the_whole_state_has_the_same_bits(tmp_path: Path, there: str, here: str) -> None:
    size, plan = MESHES[there]
    plan = replace(
        plan, rows=7, total=3, global_batch=SAMPLES, microbatch=4, checkpoint=str(tmp_path)
    )
    saved = in_world(size, plan)
    assert {one.step for one in saved} == {3}
    size, other = MESHES[here]
    loaded = in_world(
        size, replace(plan, shard=other.shard, tensor=other.tensor, pipeline=other.pipeline)
    )  # no step is left
    assert {one.step for one in loaded} == {3}
    expected = whole_state(saved[: plan.processes])
    assert "optimizer/state/first.weight/exp_avg" in expected
    for first in range(0, size, other.processes):
        state = whole_state(loaded[first : first + other.processes])
        assert set(state) == set(expected)
        for path, tensor in expected.items():
            assert torch.equal(state[path], tensor), path


def test_the_training_goes_on_at_the_sample_where_it_was(tmp_path: Path) -> None:
    plan = FullySharded(shard=1, total=6, global_batch=SAMPLES)
    undisturbed = run_alone(train_fully_sharded, plan).value.losses
    losses = []
    for total, (size, shard) in zip((2, 4, 6), ((2, 2), (3, 3), (1, 1)), strict=True):
        there = replace(plan, shard=shard, total=total, checkpoint=str(tmp_path))
        ended = run_world(size, train_fully_sharded, there)
        losses += shown(ended, size)[0].losses
    assert losses == pytest.approx(undisturbed, abs=1e-5)


def test_a_checkpoint_without_offsets_is_read(tmp_path: Path) -> None:
    """Marks had none while meshes had one dimension."""
    plan = FullySharded(shard=2, total=3, global_batch=SAMPLES, checkpoint=str(tmp_path))
    saved = in_world(2, plan)
    forget_offsets(tmp_path)
    expected = whole_state(saved)
    for size, shard in ((2, 2), (3, 3)):
        loaded = in_world(size, replace(plan, shard=shard))
        state = whole_state(loaded)
        assert all(torch.equal(state[path], expected[path]) for path in expected)


def forget_offsets(folder: Path) -> None:
    """Write the manifests of the only checkpoint as they were written before."""
    from spotrun_trainer.checkpoint.format.manifest import sha256_of  # noqa: PLC0415

    (place,) = [one.parent for one in folder.glob("*/COMPLETE")]
    marker = json.loads((place / "COMPLETE").read_text())
    for rank in range(len(marker["manifests"])):
        file = place / f"rank-{rank}.json"
        content = json.dumps(without_offsets(json.loads(file.read_text()))).encode()
        file.write_bytes(content)
        marker["manifests"][rank] = sha256_of(content)
    (place / "COMPLETE").write_text(json.dumps(marker))


def without_offsets(value: Any) -> Any:
    if isinstance(value, list):
        return [without_offsets(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$part" in value:
        mark, shape, by, _ = value["$part"]
        return {"$part": [mark, shape, list(by.values())]}
    return {key: without_offsets(one) for key, one in value.items()}


def test_a_damaged_file_that_no_range_is_read_of_is_found(tmp_path: Path) -> None:
    plan = FullySharded(shard=2, total=3, global_batch=SAMPLES, checkpoint=str(tmp_path))
    in_world(4, plan)
    (file,) = tmp_path.glob("*/rank-3.safetensors")
    content = bytearray(file.read_bytes())
    content[20] ^= 1  # in the header, which nobody parses
    file.write_bytes(content)
    ended = run_world(3, train_and_show, replace(plan, shard=3))
    assert all("damaged" in one.error for one in ended), ended


def test_parts_that_the_script_made_are_read_by_as_many(tmp_path: Path) -> None:
    plan = Sharded(total=2, checkpoint=str(tmp_path))
    shown(run_world(2, train_part, plan), 2)
    refused = run_alone(train_part, replace(plan, shards=1)).error
    assert "2 processes shared a copy of the model when it was saved, now 1" in refused
