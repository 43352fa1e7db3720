"""Checkpoints that somebody made up: refused with a sentence, nothing executed, memory bounded.

Hashes protect against damage, not against their author: all of these are consistent.
"""

import hashlib
import json
import os
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from spotrun_trainer.checkpoint import DamagedCheckpointError
from spotrun_trainer.state.flatten import Spec
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

Edit = Callable[[dict[str, Any]], object]


def forge(folder: Path, edit: Callable[[dict[str, Any]], object], rank: int = 0) -> None:
    """Change a manifest and make its hash right again."""
    manifest = json.loads((folder / f"rank-{rank}.json").read_text())
    edit(manifest)
    put(folder, json.dumps(manifest).encode(), rank)


def put(folder: Path, manifest: bytes, rank: int = 0) -> None:
    (folder / f"rank-{rank}.json").write_bytes(manifest)
    marker = json.loads((folder / "COMPLETE").read_text())
    marker["manifests"][rank] = hashlib.sha256(manifest).hexdigest()
    (folder / "COMPLETE").write_text(json.dumps(marker))


def with_slices(change: Callable[[list[Any]], object]) -> Edit:
    return lambda manifest: change(manifest["slices"])


def with_tensor(name: str, dtype: object, shape: object) -> Edit:
    return lambda manifest: manifest["tensors"].update({name: [dtype, shape]})


def with_value(value: object) -> Edit:
    return lambda manifest: manifest["values"].update(opt=value)


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


MALICE: dict[str, tuple[Edit, str]] = {
    "no tensors": (lambda m: m.pop("tensors"), "it describes no tensors"),
    "tensors in a list": (lambda m: m.update(tensors=[]), r"tensors is a dict, not \[\]"),
    "another format": (lambda m: m.update(format=2), "its format is 2, but this version reads 1"),
    "another rank": (lambda m: m.update(rank=1), "it is the manifest of rank 1 of 2"),
    "a rank that is none": (lambda m: m.update(rank="../../x"), "rank is a number up to 1"),
    "a billion ranks": (lambda m: m.update(size=10**9), "size is a number up to 1000000"),
    "no ranks": (lambda m: m.update(size=0), "rank is a number up to -1"),
    "an enormous size": (lambda m: m.update(file_bytes=10**300), "file_bytes is a number up to"),
    "a negative size": (lambda m: m.update(file_bytes=-1), "file_bytes is a number up to"),
    "a size with a fraction": (lambda m: m.update(file_bytes=1.5), "file_bytes is a number up to"),
    "a header of 10 GB": (lambda m: m.update(header_bytes=10**10), "header_bytes is a number up"),
    "a header beyond the file": (
        lambda m: m.update(header_bytes=10**7),
        r"it has \d+ bytes, but \d+ were written and its slices take \d+",
    ),
    "a hash that is a path": (lambda m: m.update(sha256="../../x"), "a hash has 64 hexadecimal"),
    "slices of nothing": (
        with_slices(lambda slices: slices.append(["../../x", 0, 1])),
        r"the slices of '../../x' leave a hole or overlap at 0",
    ),
    "slices that overlap": (
        with_slices(lambda slices: slices.append(slices[0])),
        "leave a hole or overlap at 0",
    ),
    "slices beyond the tensor": (
        with_slices(lambda slices: slices.append([slices[0][0], slices[0][2], 10**12])),
        r"'.*' have 1000000000000 elements",
    ),
    "slices backwards": (
        with_slices(lambda slices: slices.append(["x", 5, 2])),
        "a slice is a name, a start and a stop",
    ),
    "missing slices": (with_slices(lambda slices: slices.clear()), "have 0 elements|hole"),
    "slices that are none": (lambda m: m.update(slices=[{}]), "a slice is a name, a start and a"),
    "a tensor of 10 TB": (with_tensor("opt/x", "float64", [10**12]), "slices of 'opt/x' have 0 e"),
    "a tensor beyond numbers": (
        with_tensor("opt/x", "float64", [2**50, 2**50]),
        "'opt/x' does not have the type and shape of a tensor",
    ),
    "a tensor of 100 dimensions": (with_tensor("x", "float32", [1] * 100), "'x' does not have"),
    "a tensor with a negative side": (with_tensor("x", "float32", [-1]), "'x' does not have"),
    "a tensor of objects": (with_tensor("x", "object", [1]), "'x' does not have the type"),
    "a tensor of another object": (
        with_tensor("elsewhere/x", "float32", [0]),
        "tensors unknown to this script: elsewhere/x",
    ),
    "an alias of itself": (lambda m: m["aliases"].update(a="a"), "'a' is said to share storage"),
    "an alias over a tensor": (
        lambda m: m["aliases"].update({"model/0.weight": "model/1.bias"}),
        "'model/0.weight' is said to share storage",
    ),
    "values of another object": (
        lambda m: m["values"].update(x={}),
        "objects unknown to this script: x",
    ),
    "a pickle in the values": (with_value({"$pickle": "gASV"}), "a mark '.pickle' that spotrun do"),
    "a tensor that is not there": (with_value({"$tensor": "x"}), "name a tensor 'x' that it does"),
    "a module as a type": (with_value({"$dtype": "load"}), "a .dtype that is none: load"),
    "values nested deeply": (with_value(nested(400)), "its values are nested too deeply"),
    "no values of an optimizer": (with_value([]), "opt did not take its state"),
}


@pytest.mark.parametrize("case", MALICE)
def test_what_somebody_made_up_is_refused(tmp_path: Path, case: str) -> None:
    edit, reason = MALICE[case]
    target = small_training(2)
    save(tmp_path, small_training().flatten(), size=2)
    forge(tmp_path / NAME, edit)

    with (
        checkpoints(tmp_path) as opened,
        pytest.raises((DamagedCheckpointError, ValueError), match=reason),
    ):
        opened.load(NAME, target)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (b"", "it is not readable JSON"),
        (b"[" * 1_000_000, "it is not readable JSON: maximum recursion"),
        (b'{"a":' * 1_000_000, "it is not readable JSON: maximum recursion"),
        (b'{"format":1,"size":' + b"9" * 100_000 + b"}", "it is not readable JSON: Exceeds"),
        (b'{"format":1,"size":NaN}', "size is a number up to 1000000, not nan"),
        (b'{"format":1,"size":1e999}', "size is a number up to 1000000, not inf"),
        (b"[]", "it is not a JSON object"),
        (b"\xff\xfe", "it is not readable JSON"),
        (b" " * (17 << 20), "has more than 16 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_manifests_that_strain_the_parser_are_refused(
    tmp_path: Path, manifest: bytes, reason: str
) -> None:
    save(tmp_path, small_training().flatten())
    put(tmp_path / NAME, manifest)

    with checkpoints(tmp_path) as opened, pytest.raises(DamagedCheckpointError, match=reason):
        opened.load(NAME, small_training())


class Bomb:
    def __init__(self, crater: Path) -> None:
        self._crater = crater

    def __reduce__(self) -> tuple[Any, tuple[str]]:  # type: ignore[explicit-override]
        return os.mkdir, (str(self._crater),)


def test_pickles_in_the_directory_are_never_opened(tmp_path: Path) -> None:
    saved, target, crater = small_training(1), small_training(2), tmp_path / "crater"
    save(tmp_path / "runs", saved.flatten())
    for file in (".metadata", "rank-0.pkl", "rank-0.pt", "data.pkl", "rank-1.safetensors"):
        (tmp_path / "runs" / NAME / file).write_bytes(pickle.dumps(Bomb(crater)))

    with checkpoints(tmp_path / "runs") as opened:
        opened.load(NAME, target)
        (tmp_path / "runs" / NAME / "rank-0.json").write_bytes(pickle.dumps(Bomb(crater)))
        with pytest.raises(DamagedCheckpointError):
            opened.load(NAME, target)

    assert same(saved.flatten(), target.flatten())
    assert not crater.exists()


@pytest.mark.parametrize("name", ["../../x", "step-1.g1/../../x", "/etc", "", "."])
def test_no_name_leads_out_of_the_place(tmp_path: Path, name: str) -> None:
    with checkpoints(tmp_path / "runs") as opened:
        for use in (
            lambda: opened.load(name, small_training()),
            lambda: opened.prune(name, world_number=1),
            lambda: opened.save(name, small_training().flatten(), rank=0, size=1, extra={}),
        ):
            with pytest.raises(ValueError, match=r"a checkpoint is called step-N\.gG, not"):
                use()


def test_a_file_of_holes_that_claims_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    save(tmp_path, tracked(held=Held(x=torch.ones(4))).flatten())
    elements = 2**41  # 8 TB of holes take no room on a disk that allows such files

    def claim(manifest: dict[str, Any]) -> None:
        manifest["tensors"]["held/x"] = ["float32", [elements]]
        manifest["slices"] = [["held/x", 0, elements]]
        manifest["file_bytes"] = manifest["header_bytes"] + 4 * elements
        os.truncate(tmp_path / NAME / "rank-0.safetensors", manifest["file_bytes"])

    forge(tmp_path / NAME, claim)

    with (
        checkpoints(tmp_path) as opened,
        pytest.raises(ValueError, match=r"held/x would be float32\[2199023255552\], and there is"),
    ):
        opened.load(NAME, tracked(held=Held()))


def test_refusing_takes_little_memory(tmp_path: Path) -> None:
    save(tmp_path, small_training().flatten())
    put(tmp_path / NAME, b'{"format":1,"x":[' + b"[]," * (1 << 20) + b"[]]}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with checkpoints(tmp_path) as opened, pytest.raises(DamagedCheckpointError):
        opened.load(NAME, small_training())

    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 150  # 3 MiB of empty lists; 16 MiB is the longest that is parsed


def test_nothing_is_loaded_from_a_checkpoint_that_describes_something_else(tmp_path: Path) -> None:
    saved, target = small_training(1), small_training(2)
    save(tmp_path, saved.flatten())
    before = copied(target.flatten())
    assert Spec("float32", (50, 16)) == before.specs()["model/0.weight"]
    forge(tmp_path / NAME, with_tensor("model/0.weight", "float32", [16, 50]))

    with (
        checkpoints(tmp_path) as opened,
        pytest.raises(ValueError, match=r"16, 50\] in the saved state"),
    ):
        opened.load(NAME, target)

    assert same(before, target.flatten())


def test_many_tensors_that_together_claim_more_memory_than_there_is_are_refused() -> None:
    # Each of them would be granted, on a system that overcommits even all: nothing is touched yet.
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    specs = {f"held/{number}": Spec("uint8", (there // 4,)) for number in range(5)}

    with pytest.raises(ValueError, match=r"and there is no room: .* GiB are asked for in all"):
        tracked(held=Held()).landing(specs, {"held": {}})
