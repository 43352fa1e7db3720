"""Every format gives each sample by its number, whatever it lies in."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from spotrun_trainer.data import Arrow, Parquet, Tar, TokenFile, open_dataset
from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.source import open_source
from tests.unit.trainer.data.formats.files import (
    KINDS,
    LENGTH,
    SHARDS,
    TOTAL,
    fill,
    make_tokens,
    numbers,
    opened,
    tokens_of,
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_sample_is_found_by_its_number(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "data", kind)
    dataset = opened(tmp_path / "data", kind)
    places = [place * 5 % TOTAL for place in range(TOTAL)]  # each once

    assert len(dataset) == TOTAL
    assert numbers(kind, (dataset[place] for place in places)) == places
    assert numbers(kind, iter([dataset[-1]])) == [TOTAL - 1]
    with pytest.raises(IndexError):
        dataset[TOTAL]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_it_in_another_process_reads_the_same(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "data", kind)
    dataset = opened(tmp_path / "data", kind)
    first = dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301 - our own bytes

    assert numbers(kind, iter([first, copy[0], copy[TOTAL - 1]])) == [0, 0, TOTAL - 1]


@pytest.mark.parametrize("kind", ["frames", "parquet", "stream", "feather", "chunks"])
def test_what_is_compressed_is_unpacked_once_for_a_node(
    tmp_path: Path, cache: NodeCache, kind: str
) -> None:
    fill(tmp_path / "data", kind)
    numbers(kind, iter(opened(tmp_path / "data", kind)))
    made = cache.misses
    numbers(kind, iter(opened(tmp_path / "data", kind)))

    assert made >= len(SHARDS)
    assert cache.misses == made


@pytest.mark.parametrize("kind", ["tokens", "in frames", "tar", "arrow", "hdf5"])
def test_what_can_be_mapped_is_not_copied(tmp_path: Path, cache: NodeCache, kind: str) -> None:
    fill(tmp_path / "data", kind)
    dataset = opened(tmp_path / "data", kind)
    numbers(kind, iter(dataset))

    kept = [path for path in cache.root.glob("files/*/*") if path.suffix != ".json"]
    assert sum(path.stat().st_size for path in kept) < 4096 * len(SHARDS)
    assert dataset.lead == 0


@pytest.mark.parametrize("kind", KINDS)
def test_loader_workers_read_each_sample_once_in_an_epoch(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "data", kind)
    dataset = opened(tmp_path / "data", kind, window=10)
    source = open_source(dataset, microbatch=TOTAL, seed=1, num_workers=1, collate=list)
    try:
        (batch,) = source.microbatches(block_of(0, TOTAL, TOTAL, Share()))
    finally:
        source.close()

    assert isinstance(batch, list)
    assert sorted(numbers(kind, iter(batch))) == list(range(TOTAL))


def test_windows_of_tokens_may_overlap_and_follow_a_header(tmp_path: Path) -> None:
    tokens = np.arange(100, dtype=np.uint32)
    (tmp_path / "a.bin").write_bytes(bytes(12) + tokens.tobytes())
    dataset: Any = TokenFile(tmp_path / "a.bin", length=9, stride=8, dtype="uint32", header=12)

    assert len(dataset) == 12
    assert [dataset[n].tolist() for n in (0, 1)] == [[*range(9)], [*range(8, 17)]]


def test_a_file_of_zstd_without_an_index_is_read_too(tmp_path: Path) -> None:
    content = tokens_of(range(9))
    (tmp_path / "a.bin.zst").write_bytes(zstandard.compress(content))

    assert len(TokenFile(tmp_path, length=LENGTH)) == 9
    with pytest.raises(ValueError, match="has no index of frames: leave out unpack=False"):
        TokenFile(tmp_path, length=LENGTH, unpack=False)[0]


def test_a_function_is_applied_to_each_sample_by_workers(tmp_path: Path) -> None:
    fill(tmp_path / "data", "parquet")
    dataset = Parquet(tmp_path / "data", columns=["text"], transform=lambda row: row["text"] * 2)

    assert dataset[7] == "77"
    assert dataset.draws


def test_hidden_files_are_no_data(tmp_path: Path) -> None:
    make_tokens(tmp_path / "a", range(3))
    for name in (".b.bin", "_c.bin"):
        (tmp_path / name).write_bytes(bytes(8))

    assert len(open_dataset(tmp_path, length=LENGTH)) == 3


@pytest.mark.parametrize(
    ("open_it", "says"),
    [
        (lambda at: open_dataset(at / "none"), "is neither a folder with data"),
        (lambda at: open_dataset(at, length=4), "has no data among its 3 files"),
        (lambda at: open_dataset("x3://bucket/a"), "cannot be a place for data"),
        (lambda at: TokenFile(at, length=4), "has no TokenFile data: .*ends with .bin"),
        (lambda at: Parquet(at / "a.parquet.txt"), "has no Parquet data"),
        (lambda at: TokenFile(at, length=0), "at least 1"),
        (lambda at: TokenFile(at, length=4, dtype="int8"), "give one of uint16, uint32"),
        (lambda at: Parquet(at, window=0), "window=0"),
    ],
)
def test_mistakes_are_told_with_what_to_try(tmp_path: Path, open_it: object, says: str) -> None:
    for name in ("a.parquet.txt", "b.csv", "c"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ValueError, match=says):
        open_it(tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a.parquet", "is not a Parquet file"),
        ("a.arrow", "cannot be read"),
        ("a.tar", "is not a tar file"),
        ("a.h5", "is not an HDF5 file"),
        ("a.bin.zst", "is not a file that zstd has made"),
        ("a.bin", "not a whole number of uint16"),
    ],
)
def test_a_file_that_is_another_is_named(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / name).write_bytes(b"something else, and of some length." * 20 + b"...")
    with pytest.raises(ValueError, match=rf"{name}.* {says}"):
        open_dataset(tmp_path, **({"length": 4} if ".bin" in name else {}))


def test_columns_that_are_not_there_are_named_with_those_that_are(tmp_path: Path) -> None:
    fill(tmp_path / "data", "arrow")
    with pytest.raises(ValueError, match="has no column nothing; it has number, tokens"):
        Arrow(tmp_path / "data", columns=["nothing"])[0]


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'spotrun\[data\]'"):
        Parquet(tmp_path)
    Tar.suffixes  # noqa: B018 - needs none
