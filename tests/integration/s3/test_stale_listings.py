"""A store whose listings are behind: what was put is not in them yet, what was removed still is."""

from contextlib import ExitStack

import pytest

from tests.faults.store_proxy import Fault, StoreProxy
from tests.unit.trainer.checkpoint.states import checkpoints, copied, same, save, small_training

OLD, NEW, NEWEST = "step-1.g1", "step-2.g1", "step-3.g1"


@pytest.fixture
def stale(proxy: StoreProxy) -> Fault:
    """Every listing is answered as it was answered first."""
    proxy.faults.append(fault := Fault("stale", "GET", "list-type=2"))
    return fault


def test_a_checkpoint_that_no_listing_shows_is_completed_and_loaded_by_its_name(
    address: str, stale: Fault
) -> None:
    before = copied((training := small_training()).flatten())
    with ExitStack() as ranks:
        first, second = (ranks.enter_context(checkpoints(address, attempt="a")) for _ in range(2))
        assert first.complete() == []
        for rank, one in enumerate((first, second)):
            one.save(NEW, training.flatten(), rank=rank, size=2, extra={})
        for one in (first, second):
            assert one.wait(60)
        assert first.complete() == [], "no listing shows it yet"
        first.load(NEW, target := small_training(seed=2))
    assert same(target.flatten(), before)
    assert stale.struck >= 2


def test_one_that_was_removed_is_not_taken_for_one_that_is_there(
    address: str, stale: Fault
) -> None:
    flat = small_training().flatten()
    for name in (OLD, NEW, NEWEST):
        save(address, flat, name=name)
    with checkpoints(address, keep=2) as opened:
        assert opened.complete() == [NEWEST, NEW, OLD]
        opened.prune(NEWEST, world_number=1)
        assert opened.complete() == [NEWEST, NEW]
        opened.prune(NEWEST, world_number=1)  # the old one is listed, and removed once more
        assert opened.newest() == NEWEST
    assert stale.struck >= 4
