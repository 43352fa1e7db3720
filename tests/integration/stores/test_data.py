"""Data in each kind of store: read whole and in ranges, once for a node, by those who listed it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import obstore
import pytest

from spotrun_trainer.data import open_dataset
from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.places.fetching import close_fetchers
from spotrun_trainer.data.prepare.command_line import main
from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.stores import QUICKLY, connect
from tests.unit.trainer.data.formats.files import SHARDS, TOTAL, fill, numbers, opened


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeCache]:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    yield node_cache()
    close_fetchers()


def upload(folder: Path, address: str) -> None:
    store = connect(Address.parse(address), QUICKLY)
    for one in folder.iterdir():
        obstore.put(store, one.name, one.read_bytes())


# Of a Parquet file the end is read by a range first.
@pytest.mark.parametrize("kind", ["tokens", "parquet"])
def test_a_dataset_is_read_once_for_a_node(
    address: str, tmp_path: Path, kind: str, cache: NodeCache
) -> None:
    fill(tmp_path / "data", kind)
    upload(tmp_path / "data", address)
    assert numbers(kind, iter(opened(address, kind))) == list(range(TOTAL))
    made = cache.misses
    assert numbers(kind, iter(opened(address, kind))) == list(range(TOTAL))
    assert cache.misses == made


def test_a_file_that_is_another_than_the_manifest_says_is_not_read(
    address: str, tmp_path: Path
) -> None:
    fill(folder := tmp_path / "data", "tokens")
    assert main(["data", "index", str(folder)]) == 0
    content = np.fromfile(folder / "shard-1.bin", np.uint16)
    (content + 1).tofile(folder / "shard-1.bin")
    upload(folder, address)
    dataset = open_dataset(address, length=4)
    assert int(dataset[0][0]) == 0  # type: ignore[index]
    with pytest.raises(OSError, match="another hash than its manifest"):
        dataset[SHARDS[0]]


def test_a_shard_that_was_replaced_meanwhile_is_refused(address: str) -> None:
    store = connect(Address.parse(address), QUICKLY)
    obstore.put(store, "a.bin", bytes(80))
    dataset = opened(address, "tokens")
    obstore.put(store, "a.bin", b"x" * 80)
    with pytest.raises(OSError, match="has changed since the training began"):
        dataset[0]
