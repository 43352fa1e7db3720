"""Small datasets in every format; sample n says that it is n."""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from spotrun_trainer.data import open_dataset
from spotrun_trainer.data.formats.dataset import ShardedDataset
from spotrun_trainer.data.formats.zstd import write_frames

SHARDS = (7, 12, 5, 9, 3)
"""The samples in each shard."""
TOTAL = sum(SHARDS)
LENGTH = 4

Make = Callable[[Path, range], None]


def tokens_of(samples: range) -> bytes:
    tokens = np.repeat(np.array(samples, dtype=np.uint16), LENGTH)
    return tokens.tobytes() + bytes(2 * (LENGTH - 1))  # at the end no whole window


def make_tokens(path: Path, samples: range) -> None:
    path.with_suffix(".bin").write_bytes(tokens_of(samples))


def make_frames(path: Path, samples: range) -> None:
    content = tokens_of(samples)
    with path.with_suffix(".bin.zst").open("wb") as file:
        write_frames((content[at : at + 10] for at in range(0, len(content), 10)), file)


def table_of(samples: range) -> pa.Table:
    return pa.table(
        {
            "number": pa.array(samples, pa.int32()),
            "tokens": pa.array([[n] * (n % 5) for n in samples], pa.list_(pa.uint16())),
            "pair": pa.array([[n, -n] for n in samples], pa.list_(pa.float32(), 2)),
            "text": [str(n) for n in samples],
            "maybe": [None if n % 2 else n for n in samples],
        }
    )


def make_parquet(path: Path, samples: range) -> None:
    pq.write_table(table_of(samples), path.with_suffix(".parquet"), row_group_size=4)


def make_arrow(path: Path, samples: range) -> None:
    table = table_of(samples)
    with pa.ipc.new_file(str(path.with_suffix(".arrow")), table.schema) as file:
        file.write_table(table, max_chunksize=4)


def make_stream(path: Path, samples: range) -> None:
    table = table_of(samples)
    with pa.ipc.new_stream(str(path.with_suffix(".arrow")), table.schema) as file:
        file.write_table(table, max_chunksize=4)


def make_feather(path: Path, samples: range) -> None:
    table, options = table_of(samples), pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(path.with_suffix(".feather")), table.schema, options=options) as file:
        file.write_table(table, max_chunksize=4)


def make_tar(path: Path, samples: range) -> None:
    with tarfile.open(path.with_suffix(".tar"), "w") as tar:
        for n in samples:
            array = io.BytesIO()
            np.save(array, np.array([n]))
            files = {"cls": b"%d" % n, "txt": b"%d" % n, "a.npy": array.getvalue(), "jpg": b"\xff"}
            for end, content in files.items():
                member = tarfile.TarInfo(f"images/{n:03}.{end}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def make_hdf5(path: Path, samples: range) -> None:
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file["number"] = np.array(samples)
        file["part/rows"] = np.array([[n, n] for n in samples], dtype=np.float32)


def make_chunks(path: Path, samples: range) -> None:
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("number", data=np.array(samples), chunks=(2,), compression="gzip")


def tokens_number(sample: Any) -> int:
    assert sample.shape == (LENGTH,)
    assert sample.dtype == torch.int64
    (number,) = set(sample.tolist())
    return int(number)


def row_number(sample: Any) -> int:
    n = int(sample["number"])
    if "tokens" in sample:
        assert sample["tokens"].tolist() == [n] * (n % 5)
        assert sample["pair"].tolist() == [n, -n]
        assert (sample["text"], sample["maybe"]) == (str(n), None if n % 2 else n)
    return n


def tar_number(sample: Any) -> int:
    n: int = sample["cls"]
    assert sample["__key__"] == f"images/{n:03}"
    assert (sample["txt"], sample["jpg"]) == (str(n), b"\xff")
    assert sample["a.npy"].tolist() == [n]
    return n


KINDS: dict[str, tuple[Make, Callable[[Any], int], dict[str, Any]]] = {
    "tokens": (make_tokens, tokens_number, {"length": LENGTH}),
    "frames": (make_frames, tokens_number, {"length": LENGTH}),
    "in frames": (make_frames, tokens_number, {"length": LENGTH, "unpack": False}),
    "parquet": (make_parquet, row_number, {}),
    "arrow": (make_arrow, row_number, {}),
    "stream": (make_stream, row_number, {}),
    "feather": (make_feather, row_number, {}),
    "tar": (make_tar, tar_number, {}),
    "hdf5": (make_hdf5, row_number, {}),
    "chunks": (make_chunks, row_number, {}),
}


def fill(folder: Path, kind: str) -> None:
    """Make the shards of a dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    first = 0
    for number, samples in enumerate(SHARDS):
        KINDS[kind][0](folder / f"shard-{number}", range(first, first + samples))
        first += samples


def opened(where: Path | str, kind: str, **more: Any) -> ShardedDataset:
    return open_dataset(where, **KINDS[kind][2], **more)


def numbers(kind: str, samples: Iterator[Any]) -> list[int]:
    """Return which samples these are, each seen to be whole."""
    return [KINDS[kind][1](sample) for sample in samples]
