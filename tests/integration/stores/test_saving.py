"""Checkpoints in each kind of store: saved, found, loaded, looked at, removed and exported."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.foreign.reading.loading import load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.tools.command_line import main
from spotrun_trainer.checkpoint.tools.export_flags import FORMATS
from tests.unit.trainer.checkpoint.states import (
    NAME,
    checkpoints,
    copied,
    same,
    save,
    small_training,
)


def test_it_is_loaded_bit_by_bit_by_any_number_of_processes(address: str) -> None:
    flat = small_training().flatten()
    before = copied(flat)
    save(address, flat, size=3, attempt="a")
    target = small_training(seed=2)
    with checkpoints(address) as opened:
        assert opened.complete() == [NAME]
        assert opened.load(NAME, target) == {"of": NAME}
    assert same(target.flatten(), before)


def test_superseded_checkpoints_are_deleted(address: str) -> None:
    flat = small_training().flatten()
    with checkpoints(address, keep=2) as opened:
        for step in range(4):
            opened.save(f"step-{step}.g1", flat, rank=0, size=1, extra={})
            assert opened.wait(30)
        opened.prune("step-3.g1", world_number=1)
        assert opened.complete() == ["step-3.g1", "step-2.g1"]
    left = {str(name) for name in open_storage(address).names()}
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
    assert "does not exist: " in capsys.readouterr().err


def test_a_bit_that_flips_in_the_store_is_found(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(address, small_training().flatten())
    place, name = open_storage(address), Name.parse(NAME)
    content = bytearray(place.read(name, "rank-0.safetensors"))
    content[-5] ^= 1
    place.write(name, "rank-0.safetensors", bytes(content), 0)
    assert main(["checkpoints", "verify", address]) == 1
    assert f"{address}/{NAME}/rank-0.safetensors is damaged" in capsys.readouterr().out


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
