import asyncio
import gc
import os
import platform
from collections.abc import Iterator
from typing import Any

import pytest

from bench.operator_bench import rss_mb
from spotrun.runtime import gc_tuning


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
    monkeypatch.setattr(gc_tuning, "COLLECT_SECONDS", 0.01)
    settled = asyncio.Event()
    usual = gc.get_threshold()

    async def has_settled() -> None:
        await settled.wait()

    task = asyncio.create_task(gc_tuning.collect_rarely(has_settled()))
    await asyncio.sleep(0)
    before = len(full_collections)
    kept = survive(200_000)
    assert len(full_collections) == before

    settled.set()
    async with asyncio.timeout(10):
        while len(full_collections) < before + 3:  # noqa: ASYNC110 - a callback cannot wake us
            await asyncio.sleep(0.01)
    assert gc.get_freeze_count() >= len(kept)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)


def test_by_itself_a_burst_of_objects_is_met_by_full_collections(
    full_collections: list[int],
) -> None:
    kept = survive(200_000)
    assert len(kept) == 200_000
    assert full_collections


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="malloc_trim is a function of glibc alone"
)
def test_free_pages_between_pages_in_use_are_given_back() -> None:
    """What is read from the API server is of this size, and some of it stays in caches."""
    read = [bytes(10_000) for _ in range(10_000)]
    kept = read[::100]
    del read
    before = rss_mb(os.getpid())
    gc_tuning.give_back_free_pages()
    assert before - rss_mb(os.getpid()) > 50
    assert len(kept) == 100
