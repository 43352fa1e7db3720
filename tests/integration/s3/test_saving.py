"""Checkpoints of a training in S3: saved, found, loaded in part, looked at, and kept apart."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from devcluster.s3.server import Server
from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.foreign.reading.loading import load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.ownership import Claim, FolderInUseError, Ownership
from spotrun_trainer.checkpoint.tools.command_line import main
from spotrun_trainer.checkpoint.tools.export_flags import FORMATS
from spotrun_trainer.parallel.division import Box
from tests.faults.store_proxy import StoreProxy
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.checkpoint.states import (
    NAME,
    Held,
    checkpoints,
    copied,
    same,
    save,
    small_training,
    tracked,
)
from tests.unit.trainer.checkpoint.test_parts import save_parts
from tests.unit.trainer.run.scripts import Plan, train

MEGABYTES = 40


def test_it_is_loaded_bit_by_bit_by_any_number_of_processes(address: str) -> None:
    flat = small_training().flatten()
    before = copied(flat)
    save(address, flat, size=3, attempt="a")
    target = small_training(seed=2)
    with checkpoints(address) as opened:
        assert opened.complete() == [NAME]
        assert opened.load(NAME, target) == {"of": NAME}
    assert same(target.flatten(), before)


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
    assert f"going on from step-3.g0, which was in s3://{bucket}/team/job" in alone.said


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


def test_superseded_checkpoints_are_deleted(s3: Server, address: str, bucket: str) -> None:
    flat = small_training().flatten()
    with checkpoints(address, keep=2) as opened:
        for step in range(4):
            opened.save(f"step-{step}.g1", flat, rank=0, size=1, extra={})
            assert opened.wait(30)
        opened.prune("step-3.g1", world_number=1)
        assert opened.complete() == ["step-3.g1", "step-2.g1"]
    left = {one.parent.name for one in (s3.folder / bucket).rglob("*") if one.is_file()}
    assert left == {"step-3.g1", "step-2.g1"}


def test_of_many_that_write_a_marker_at_the_same_time_one_wins(address: str) -> None:
    places = [open_storage(address) for _ in range(8)]
    together = threading.Barrier(len(places))

    def create(number: int) -> bool:
        together.wait(30)
        return places[number].note("COMPLETE").create(str(number).encode())

    with ThreadPoolExecutor(len(places)) as pool:
        won = list(pool.map(create, range(len(places))))
    assert won.count(True) == 1
    assert places[0].note("COMPLETE").read() == str(won.index(True)).encode()


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


def test_the_commands_take_an_address(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    flat = small_training().flatten()
    for step in (1, 2):
        save(address, flat, name=f"step-{step}.g1")
    assert main(["checkpoints", "ls", address]) == 0
    assert capsys.readouterr().out.count("complete") == 2
    assert main(["checkpoints", "show", f"{address}/step-1.g1"]) == 0
    assert f"step-1.g1 in {address}" in capsys.readouterr().out
    assert main(["checkpoints", "verify", f"{address}/"]) == 0
    assert "step-2.g1: whole (3 files)" in capsys.readouterr().out
    assert main(["checkpoints", "diff", f"{address}/step-1.g1", f"{address}/step-2.g1"]) in {0, 1}
    assert main(["checkpoints", "rm", "--yes", f"{address}/step-1.g1"]) == 0
    assert f"removed {address}/step-1.g1" in capsys.readouterr().out
    assert main(["checkpoints", "show", f"{address}/step-1.g1"]) == 2
    assert "is not there: there are 1 in" in capsys.readouterr().err


def test_a_bit_that_flips_in_the_store_is_found(
    s3: Server, address: str, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(address, small_training().flatten())
    file = s3.folder / bucket / "team/job" / NAME / "rank-0.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    assert main(["checkpoints", "verify", address]) == 1
    assert f"{address}/{NAME}/rank-0.safetensors is damaged" in capsys.readouterr().out


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


def test_a_model_is_exported_from_a_store(address: str, tmp_path: Path) -> None:
    save(address, (training := small_training()).flatten(), size=2)
    model: Any = training._things["model"]
    for kind in FORMATS:
        output = str(tmp_path / f"out.{kind}")
        assert main(["export", address, "--format", kind, "--output", output]) == 0
        loaded: Any = small_training(seed=2)._things["model"]
        load_into(loaded, open_source(Path(output)))
        for name, one in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], one)
