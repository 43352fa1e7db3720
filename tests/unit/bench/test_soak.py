"""The figures of bench/soak.py, from samples made by hand."""

import gc
from functools import lru_cache

import pytest

from bench.soak import Sample, leaks
from bench.soaking.census import CACHED, Census, census, slope
from bench.soaking.heap import heap

FLAT = {"objects spotrun.wire.report.Report": 40, "entries builtins.dict": 9000, "tasks": 30}


def sample(jobs: int, *, etcd_keys: int = 400, status_bytes: int = 2000, **grown: int) -> Sample:
    counts = FLAT | {name.replace("_", " "): count for name, count in grown.items()}
    return Sample(jobs, 100.0, {}, 20, counts, etcd_keys, status_bytes)


def test_the_slope_is_that_of_most_samples() -> None:
    points = [(float(jobs), 100 + jobs / 1000) for jobs in range(0, 600, 30)]
    points[7] = (210.0, 140.0)  # taken amid a collection
    assert slope(points) == pytest.approx(1 / 1000)


def test_a_slope_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="run more waves"):
        slope([(30.0, 100.0)])


def test_nothing_leaks_where_nothing_grows() -> None:
    assert leaks(sample(100), sample(600)) == []
    assert leaks(sample(100), sample(100)) == []


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (sample(600, tasks=36), "tasks: 0.01 a job"),
        (sample(600, **{"objects_builtins.list": 60}), "objects builtins.list: 0.12 a job"),
        (sample(600, etcd_keys=401), "keys in etcd: 400, then 401"),
        (sample(600, status_bytes=2600), "bytes of a status: 2000, then 2600"),
    ],
)
def test_what_grows_with_the_jobs_is_a_leak(last: Sample, found: str) -> None:
    assert leaks(sample(100), last) == [found]


def test_results_that_are_kept_up_to_a_limit_are_no_leak() -> None:
    assert leaks(sample(100), sample(600, **{CACHED: 4000})) == []


class KeptDict(dict[str, int]):
    """A dict that no library and no other test makes: its count is exact."""


class KeptList(list[object]):
    """A list that nobody else makes."""


def kept_entries(counts: Census, kind: type) -> int:
    return counts.get(f"entries {kind.__module__}.{kind.__qualname__}", 0)


async def test_a_census_counts_what_a_frozen_container_keeps_and_results_of_functions() -> None:
    kept = KeptList()
    square = lru_cache(maxsize=500)(lambda number: number**2)
    gc.freeze()
    before = census()
    assert gc.get_freeze_count() > 0, "it is frozen again"
    kept.extend(KeptList([square(number)]) for number in range(1000))
    after = census()
    assert kept_entries(after, KeptList) - kept_entries(before, KeptList) == 2000
    assert after[CACHED] - before[CACHED] == 500


async def test_a_census_counts_what_is_kept() -> None:
    kept = KeptList()
    before = census()
    kept.extend(KeptDict({str(n): n, "more": n}) for n in range(1000))
    after = census()
    assert kept_entries(after, KeptDict) - kept_entries(before, KeptDict) == 2000
    assert kept_entries(after, KeptList) - kept_entries(before, KeptList) == 1000
    objects = f"objects {__name__}.KeptDict"
    assert after[objects] - before.get(objects, 0) == 1000
    assert after["tasks"] == before["tasks"]


async def test_a_census_counts_dicts_that_the_collector_does_not_know() -> None:
    kept: list[dict[str, int]] = []
    before = census()
    kept.extend({str(n): n, "more": n} for n in range(20_000))
    assert not any(map(gc.is_tracked, kept))
    after = census()
    # Other objects come and go meanwhile, but not thousands of them.
    assert 19_000 < after["objects builtins.dict"] - before["objects builtins.dict"] < 21_000
    assert 38_000 < after["entries builtins.dict"] - before["entries builtins.dict"] < 42_000
    assert 19_000 < after["entries builtins.list"] - before["entries builtins.list"] < 21_000


async def test_cached_results_are_no_entries_of_a_dict() -> None:
    square = lru_cache(maxsize=None)(lambda number: number**2)
    before = census()
    for number in range(20_000):
        square(number)
    after = census()
    assert after[CACHED] - before[CACHED] >= 20_000
    assert after["entries builtins.dict"] - before["entries builtins.dict"] < 2_000


def test_the_heap_tells_what_is_in_use_from_what_is_free() -> None:
    before = heap()
    assert before is not None, "glibc 2.33 or newer"
    blocks = [bytes(10_000) for _ in range(2000)]
    full = heap()
    assert full is not None
    assert full.used_mb - before.used_mb == pytest.approx(20, abs=2)
    kept = blocks[-1]  # at the end, so that the rest is not simply cut off
    del blocks
    free = heap()
    assert free is not None
    assert full.used_mb - free.used_mb == pytest.approx(20, abs=2)
    assert len(kept) == 10_000
