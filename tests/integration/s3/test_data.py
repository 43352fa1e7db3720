"""Data in S3: fetched once for a node, by loader workers too, and after processes were killed."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.s3.server import Server
from spotrun_trainer.data import open_dataset
from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.places.fetching import close_fetchers
from spotrun_trainer.data.prepare.command_line import main
from spotrun_trainer.data.source import open_source
from tests.faults.store_proxy import Fault, StoreProxy
from tests.unit.trainer.data.formats.files import KINDS, SHARDS, TOTAL, fill, numbers, opened


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeCache]:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    yield node_cache()
    close_fetchers()


@pytest.fixture
def place(s3: Server, bucket: str) -> Path:
    """The folder in which the server has the objects of `address`."""
    return s3.folder / bucket / "team/job"


@pytest.mark.parametrize("kind", KINDS)
def test_each_format_is_read_from_a_store(
    address: str, place: Path, kind: str, cache: NodeCache
) -> None:
    fill(place, kind)
    dataset = opened(address, kind)
    assert dataset.lead > 0
    assert numbers(kind, iter(dataset)) == list(range(TOTAL))
    made = cache.misses
    assert numbers(kind, iter(opened(address, kind))) == list(range(TOTAL))
    assert cache.misses == made


def test_loader_workers_fetch_each_shard_once(address: str, place: Path, proxy: StoreProxy) -> None:
    fill(place, "tokens")
    dataset = opened(address, "tokens", window=10)
    proxy.log.clear()
    source = open_source(dataset, microbatch=2, seed=1, num_workers=3, collate=list)
    try:
        list(source.microbatches(block_of(0, TOTAL, 2, Share())))
    finally:
        source.close()
    assert len(proxy.log) == len(SHARDS)


def test_the_cache_outlives_processes_that_are_killed(address: str, place: Path) -> None:
    fill(place, "parquet")
    fork = multiprocessing.get_context("fork")
    told, tells = fork.Pipe(duplex=False)

    def read() -> None:
        cache = node_cache()
        cache.hits = cache.misses = 0
        numbers("parquet", iter(opened(address, "parquet")))
        tells.send((cache.hits, cache.misses))
        time.sleep(60)

    found = []
    for _ in range(2):
        process = fork.Process(target=read)
        process.start()
        found.append(told.recv())
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    assert found[0][1] >= len(SHARDS)
    assert found[1][1] == 0


def test_what_passes_is_tried_again(address: str, place: Path, proxy: StoreProxy) -> None:
    fill(place, "tokens")
    dataset = opened(address, "tokens")
    proxy.faults.append(fault := Fault("reset", "GET", times=2))
    assert numbers("tokens", iter(dataset)) == list(range(TOTAL))
    assert fault.struck == 2


def test_with_a_manifest_nothing_is_listed_or_looked_into(
    address: str, place: Path, proxy: StoreProxy
) -> None:
    fill(place, "tar")
    assert main(["data", "index", str(place)]) == 0
    dataset = open_dataset(address)
    assert len(dataset) == TOTAL
    assert len(proxy.log) == 2  # the manifest: for the format, and for the dataset
    assert numbers("tar", iter(dataset)) == list(range(TOTAL))
