import asyncio
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.operator_bench import rss_mb
from spotrun.runtime import memory_tuning

ROOT = Path(__file__).parents[3]


@pytest.fixture
def full_collections() -> Iterator[list[int]]:
    """How many objects each full collection has freed."""
    freed: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            freed.append(info["collected"])

    gc.callbacks.append(note)
    yield freed
    gc.callbacks.remove(note)
    gc.freeze()  # as tests/conftest.py does: for the tests that follow, libraries are there to stay


def survive(objects: int) -> list[list[int]]:
    """So many objects that last, as a cache of pods has them."""
    return [[number] for number in range(objects)]


async def test_full_collections_come_at_their_times_and_not_with_a_burst_of_objects(
    full_collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_tuning, "COLLECT_SECONDS", 0.01)
    monkeypatch.setattr(memory_tuning, "FIRST_SECONDS", 0.05)
    settled = asyncio.Event()
    usual = gc.get_threshold()

    async def has_settled() -> None:
        await settled.wait()

    task = asyncio.create_task(memory_tuning.collect_rarely(has_settled()))
    await asyncio.sleep(0)
    before = len(full_collections)
    kept = survive(200_000)
    assert len(full_collections) == before

    settled.set()
    await asyncio.sleep(0)
    assert len(full_collections) == before
    async with asyncio.timeout(10):
        while len(full_collections) < before + 3:  # noqa: ASYNC110 - a callback cannot wake us
            await asyncio.sleep(0.01)
    assert gc.get_freeze_count() >= len(kept)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)


async def test_an_operator_that_ends_before_its_first_collection_changes_nothing() -> None:
    gc.freeze()
    frozen, usual = gc.get_freeze_count(), gc.get_threshold()
    task = asyncio.create_task(
        memory_tuning.collect_rarely(asyncio.get_running_loop().create_future())
    )
    await asyncio.sleep(0)  # one turn of the loop: it has begun to wait
    assert gc.get_threshold() != usual
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() > 0.9 * frozen, "what is still alive is frozen"


def test_by_itself_a_burst_of_objects_is_met_by_full_collections(
    full_collections: list[int],
) -> None:
    kept = survive(200_000)
    assert len(kept) == 200_000
    assert full_collections


ON_GLIBC = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="mallopt and malloc_trim are functions of glibc alone"
)


@ON_GLIBC
def test_free_pages_between_pages_in_use_are_given_back() -> None:
    """What is read from the API server is of this size, and some of it stays in caches."""
    read = [bytes(10_000) for _ in range(10_000)]
    kept = read[::100]
    del read
    before = rss_mb(os.getpid())
    memory_tuning.give_back_free_pages()
    assert before - rss_mb(os.getpid()) > 50
    assert len(kept) == 100


LARGE_BLOCKS = """
import os, sys
from bench.operator_bench import rss_mb
from spotrun.runtime import memory_tuning

if sys.argv[1] == "limited":
    memory_tuning.limit_heaps()
whole = b"x" * 20_000_000
del whole  # otherwise glibc takes this for the size of a usual block
before = rss_mb(os.getpid())
read, kept = [], []
for _ in range(300):
    read.append(b"x" * 300_000)
    kept.append(b"x" * 10_000)
del read
print(rss_mb(os.getpid()) - before)
"""


@ON_GLIBC
def test_large_blocks_are_given_back_as_soon_as_they_are_free() -> None:
    def left_mb(how: str) -> float:
        command = [sys.executable, "-c", LARGE_BLOCKS, how]
        return float(subprocess.check_output(command, cwd=ROOT))

    assert left_mb("limited") < 15
    assert left_mb("as usual") > 60
