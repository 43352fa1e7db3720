"""Weights that somebody made up, or that were cut off: refused, and nothing in them executed."""

import json
import os
import pickle
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from typing_extensions import override

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError
from spotrun_trainer.checkpoint.foreign.reading import inert_pickle
from spotrun_trainer.checkpoint.foreign.reading.loading import load_into
from spotrun_trainer.checkpoint.foreign.reading.opening import open_source
from tests.unit.trainer.checkpoint.foreign.test_reading import (
    as_dcp,
    as_hugging_face,
    as_ours,
    as_safetensors,
    as_torch,
    write_index,
)
from tests.unit.trainer.checkpoint.test_malice import Bomb

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

STATE = {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.arange(3.0)}
WEIGHT = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}


def load(path: Path) -> None:
    load_into(nn.Linear(4, 3), open_source(path))


def file_of(folder: Path, header: object, *, length: int | None = None, room: int = 60) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "x.safetensors"
    size = struct.pack("<Q", len(text) if length is None else length)
    path.write_bytes(size + text + bytes(room))
    return path


def both(**changed: object) -> dict[str, object]:
    return {
        "weight": {**WEIGHT, **changed},
        "bias": {"dtype": "F32", "shape": [3], "data_offsets": [48, 60]},
    }


def test_the_made_up_file_is_read_as_it_was_not_changed(tmp_path: Path) -> None:
    load(file_of(tmp_path, both()))


HEADERS: dict[str, tuple[object, str]] = {
    "a place beyond the file": (both(data_offsets=[100, 148]), "too short for its tensor 'weight'"),
    "a size of another shape": (both(shape=[3, 5]), "is too short for its tensor 'weight'"),
    "a place backwards": (both(data_offsets=[48, 0]), "is too short for its tensor 'weight'"),
    "a negative place": (both(data_offsets=[-48, 0]), "an entry 'weight' that is not a tensor"),
    "a negative side": (both(shape=[-3, -4]), "an entry 'weight' that is not a tensor"),
    "a fraction": (both(shape=[3.0, 4]), "an entry 'weight' that is not a tensor"),
    "a side of true": (both(shape=[True, 12]), "an entry 'weight' that is not a tensor"),
    "an enormous side": (both(shape=[10**30, 0]), "an entry 'weight' that is not a tensor"),
    "many dimensions": (both(shape=[1] * 100), "an entry 'weight' that is not a tensor"),
    "a type that is none": (both(dtype="../../x"), "an entry 'weight' that is not a tensor"),
    "no tensor": ({"weight": 3}, "an entry 'weight' that is not a tensor: 3"),
    "a list": ([], "it has no JSON object"),
    "no JSON": (b"{", "cannot be read"),
    "no text": (b"\xff\xfe", "cannot be read"),
    "deep JSON": (b'{"a":' * 100_000, "cannot be read: maximum recursion"),
    "long numbers": (b'{"a":' + b"9" * 100_000 + b"}", "cannot be read: Exceeds the limit"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_compared_with_the_file(tmp_path: Path, case: str) -> None:
    header, reason = HEADERS[case]
    with pytest.raises(ValueError, match=reason):
        load(file_of(tmp_path, header))


@pytest.mark.parametrize("length", [0, 10**9, 2**63, 2**64 - 1])
def test_lengths_of_headers_are_compared_with_the_file(tmp_path: Path, length: int) -> None:
    with pytest.raises(ValueError, match="is not a safetensors file, or was cut off"):
        load(file_of(tmp_path, both(), length=length))


INDICES: dict[str, tuple[object, str]] = {
    "a path to elsewhere": ({"weight": "../x.safetensors"}, "names a file '../x.safe.*not in it"),
    "an absolute path": ({"weight": "/etc/passwd"}, "names a file '/etc/passwd'"),
    "the folder itself": ({"weight": ".."}, r"names a file '\.\.'"),
    "no name": ({"weight": 3}, "names a file 3, which"),
    "a list": (["weight"], "has no weight_map"),
    "a file that is not there": ({"weight": "y.safetensors"}, "y.safetensors does not exist"),
    "a tensor that is not there": ({"z": "model-1.safetensors"}, "a tensor 'z' that no file has"),
    "less than is needed": ({"weight": "model-1.safetensors"}, "not in the weights: bias"),
}


@pytest.mark.parametrize("case", INDICES)
def test_an_index_names_files_beside_it(tmp_path: Path, case: str) -> None:
    weight_map, reason = INDICES[case]
    (tmp_path / "folder").mkdir()
    as_hugging_face(tmp_path / "folder", STATE)
    write_index(tmp_path / "folder", weight_map)
    with pytest.raises(ValueError, match=reason):
        load(tmp_path / "folder")


def test_no_pickle_runs_anything(tmp_path: Path) -> None:
    crater = tmp_path / "crater"
    torch.save({"weight": Bomb(crater)}, tmp_path / "weights.pt")
    with pytest.raises(ValueError, match=r"not a file of weights made by torch\.save"):
        load(tmp_path / "weights.pt")
    (tmp_path / "legacy.bin").write_bytes(pickle.dumps(Bomb(crater)))
    with pytest.raises(ValueError, match=r"not a file of weights made by torch\.save"):
        load(tmp_path / "legacy.bin")
    folder = tmp_path / "dcp"
    as_dcp(folder, STATE)
    (folder / ".metadata").write_bytes(pickle.dumps(Bomb(crater)))
    with pytest.raises(ValueError, match=r"\.metadata is not the index of a checkpoint"):
        load(folder)
    index = FileSystemReader(as_dcp(tmp_path / "other", STATE)).read_metadata()
    index.planner_data = Bomb(crater)  # what nobody looks at
    (tmp_path / "other/.metadata").write_bytes(pickle.dumps(index))
    load(tmp_path / "other")
    data = tmp_path / "other/__0_0.distcp"
    torch.save(Bomb(crater), data)
    with pytest.raises(ValueError, match=r"cannot be read at|was cut off"):
        load(tmp_path / "other")

    assert not crater.exists()


def with_size(index: Any, value: object) -> None:
    index.state_dict_metadata["weight"].size = value


def with_chunk(index: Any, **values: object) -> None:
    vars(index.state_dict_metadata["weight"].chunks[0]).update(values)


def with_place(index: Any, **values: object) -> None:
    for key, place in index.storage_data.items():
        if key.fqn == "weight":
            vars(place).update(values)


class Sides:
    """Lists that share others, as the sides of a tensor: their text has millions of brackets."""

    def __init__(self) -> None:
        self.sides = list[Any]()
        for _ in range(20):
            self.sides = [self.sides, self.sides]

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return torch.Size, (self.sides,)


def rename(index: Any, name: object) -> None:
    place = next(iter(index.storage_data))
    object.__setattr__(place, "fqn", name)


FORGED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a path to elsewhere": (lambda m: with_place(m, relative_path="../x"), "names a file '../x'"),
    "an absolute path": (lambda m: with_place(m, relative_path="/etc/passwd"), "'/etc/passwd'"),
    "a place beyond the file": (lambda m: with_place(m, offset=10**12), "was cut off"),
    "a negative place": (lambda m: with_place(m, offset=-1), "is no shape"),
    "another tensor's place": (lambda m: with_place(m, length=10), "cannot be read at"),
    "compressed": (lambda m: with_place(m, transform_descriptors=["zstd"]), "are compressed"),
    "another shape": (
        lambda m: with_size(m, torch.Size([6, 4])),
        r"weight is float32\[6, 4\] in the",
    ),
    "a smaller chunk": (
        lambda m: with_chunk(m, sizes=torch.Size([2, 4])),
        "has a different tensor at",
    ),
    "a chunk outside": (lambda m: with_chunk(m, sizes=torch.Size([4, 4])), "outside of its shape"),
    "a size of text": (lambda m: with_size(m, "ab"), "is not the index of a checkpoint"),
    "a size of lists": (lambda m: with_size(m, Sides()), r"\[\.\.\.\].* is no shape"),
    "a file of lists": (
        lambda m: with_place(m, relative_path=Sides().sides),
        r"names a file .*\[\.\.\.\].*, which is not in it",
    ),
    "a name of lists": (lambda m: rename(m, (1, (2, 3))), r"\(1, \(2, 3\)\) is not a name"),
    "no chunk": (lambda m: m.state_dict_metadata["weight"].chunks.clear(), "0 of 12 elements w"),
    "a list of tensors": (lambda m: setattr(m, "state_dict_metadata", []), "is not a dict"),
    "no places": (lambda m: m.storage_data.clear(), "a chunk of 'weight' is in none of its files"),
    "a chunk of another type": (
        lambda m: setattr(m.state_dict_metadata["weight"].properties, "dtype", torch.float64),
        "has a different tensor at",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_an_index_of_dcp_is_compared_with_the_files(tmp_path: Path, case: str) -> None:
    change, reason = FORGED[case]
    index = FileSystemReader(as_dcp(tmp_path, STATE)).read_metadata()
    change(index)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(index))
    with pytest.raises(ValueError, match=reason):
        load(tmp_path)


@pytest.mark.parametrize("write", [as_safetensors, as_hugging_face, as_torch, as_dcp, as_ours])
@pytest.mark.parametrize("left", [0.0, 0.3, 0.9])
def test_files_that_were_cut_off_are_refused(
    tmp_path: Path, write: Callable[..., Path], left: float
) -> None:
    path = write(tmp_path, STATE)
    load(path)
    for file in [one for one in tmp_path.rglob("*") if one.is_file()]:
        content = file.read_bytes()
        os.truncate(file, int(len(content) * left))
        with pytest.raises((ValueError, DamagedCheckpointError)) as error:
            load(path)
        assert str(tmp_path) in str(error.value)
        file.write_bytes(content)
    load(path)


def test_a_pipe_is_no_file_to_wait_for(tmp_path: Path) -> None:
    as_hugging_face(tmp_path, STATE)
    (tmp_path / "model-1.safetensors").unlink()
    os.mkfifo(tmp_path / "model-1.safetensors")
    with pytest.raises(ValueError, match="does not exist, or is not a regular file"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", "nowhere does not exist: give a folder of Hugging Face"),
        ("empty", "empty has no weights in a known format"),
        ("empty/step-1.g1", "step-1.g1 does not exist: give a folder"),
        ("two", "two has several files of weights: give the path of the index, or"),
        ("saved", "saved contains no complete checkpoint"),
    ],
)
def test_other_paths_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    for one in ("empty", "two", "saved/step-1.g1"):
        (tmp_path / one).mkdir(parents=True)
    for file in ("a", "b"):
        (tmp_path / f"two/{file}.safetensors").touch()
    with pytest.raises(ValueError, match=reason):
        load(tmp_path / name)


def test_a_large_index_is_not_read(tmp_path: Path) -> None:
    as_dcp(tmp_path, STATE)
    os.truncate(tmp_path / ".metadata", 300 << 20)  # no block of it is on the disk
    with pytest.raises(ValueError, match="has more than 256 MiB"):
        load(tmp_path)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Give this process 48 GiB of addresses; a table for the largest index would take 64."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (48 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
def test_a_pickle_takes_no_more_memory_than_it_has_content() -> None:
    assert inert_pickle.read(b"\x80\x02Nr\xff\xff\xff\xff.") is None
    with pytest.raises(ValueError, match="it has a bytearray"):
        inert_pickle.read(b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".")


def test_a_recursive_pickle_ends(tmp_path: Path) -> None:
    as_dcp(tmp_path, STATE)
    (tmp_path / ".metadata").write_bytes(b"(" * 1_000_000 + b"t" * 1_000_000 + b".")
    # In a process of its own: an overflow of the stack would end it.
    program = f"from {__name__} import load; import pathlib; load(pathlib.Path({str(tmp_path)!r}))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert "is not the index of a checkpoint" in ran.stderr.splitlines()[-1]
