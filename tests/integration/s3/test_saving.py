"""Checkpoints of a training in S3: saved, found, loaded in part, looked at, and kept apart."""

import os
import time
from pathlib import Path

import pytest
import torch

from devcluster.s3.server import Server
from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.ownership import Claim, FolderInUseError, Ownership
from spotrun_trainer.parallel.division import Box
from tests.faults.store_proxy import StoreProxy
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.checkpoint.states import (
    NAME,
    Held,
    checkpoints,
    tracked,
)
from tests.unit.trainer.checkpoint.test_parts import save_parts
from tests.unit.trainer.run.scripts import Plan, train

MEGABYTES = 40


def test_a_training_goes_on_with_another_number_of_processes(
    s3: Server, address: str, bucket: str
) -> None:
    env = s3.environment()
    plan = Plan(total=3, checkpoint=address, every="1 steps", deterministic=True)
    for ended in run_world(2, train, plan, env=env):
        assert ended.error == "", ended.said
    alone = run_alone(train, Plan(total=5, checkpoint=address, deterministic=True), env=env)
    assert alone.error == "", alone.said
    assert len(alone.value.losses) == 2
    assert f"continuing from step-3.g0, found in s3://{bucket}/team/job" in alone.said


def test_of_a_divided_tensor_only_the_ranges_that_are_needed_are_read(
    address: str, proxy: StoreProxy
) -> None:
    whole = torch.arange(MEGABYTES * 2**18, dtype=torch.float32).reshape(2 * MEGABYTES, -1)
    save_parts(
        address, whole, [Box((0, 0), (MEGABYTES, 2**17)), Box((MEGABYTES, 0), (MEGABYTES, 2**17))]
    )
    held = Held(x=torch.zeros_like(whole))
    proxy.ranges.clear()
    with checkpoints(address) as opened:
        opened.load(NAME, tracked(held=held))
    assert torch.equal(held.content["x"], whole)
    bounds = [one.removeprefix("bytes=").split("-") for one in proxy.ranges]
    asked = sum(int(last) - int(first) + 1 for first, last in bounds)
    # Once to verify it, and once into the tensor; the headers are read with it.
    assert 2 * whole.nbytes <= asked <= 2 * whole.nbytes + 2**20
    assert len(bounds) >= 2 * MEGABYTES // 8, "in pieces, several at a time"


def test_another_training_is_refused_while_the_first_one_runs(address: str) -> None:
    place = open_storage(address)
    first = Ownership(place, Claim("a", "training a"), beat_seconds=0.1)
    second = Ownership(place, Claim("b", "training b"), beat_seconds=0.1, watch_seconds=3.0)
    first.take()
    try:
        with pytest.raises(
            FolderInUseError, match=f"training a keeps its checkpoints in {address}"
        ):
            second.take()
    finally:
        first.leave(is_over=True)
    assert place.note("OWNER").read() is None
    second.take()
    second.leave(is_over=True)


def test_a_large_save_leaves_no_thread_and_no_part_behind(
    s3: Server, address: str, bucket: str
) -> None:
    content = memoryview(os.urandom(MEGABYTES << 20))
    place, name = open_storage(address), Name(1, 1)
    place.write_data(name, "rank-0.safetensors", [content], len)
    began = time.monotonic()
    with place.opened(name, "rank-0.safetensors", [(0, len(content))]) as file:
        file.read_into(0, memoryview(bytearray(100)))
    assert time.monotonic() - began < 30
    assert parts_of_uploads(s3.folder / bucket) == []


def parts_of_uploads(folder: Path) -> list[Path]:
    """Return what the server keeps of uploads that were neither completed nor given up."""
    kept = folder / ".sgwtmp" / "multipart"
    return [one for one in kept.rglob("*") if one.is_file()] if kept.exists() else []
