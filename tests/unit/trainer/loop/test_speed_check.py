"""The speeds of devices and links, and the worker that is at fault for a slow link."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.loop.speed_check import (
    Speed,
    flops_of,
    rounds_of,
    speeds_of,
    summary,
)
from tests.support.processes.trainer_world import OWN_WORKER, run_world
from tests.unit.trainer.run.scripts import Plan, train


@given(st.integers(1, 100))
def test_each_link_of_a_ring_is_measured_once_and_no_worker_has_two_at_a_time(workers: int) -> None:
    rounds = rounds_of(workers)
    links = list(chain.from_iterable(rounds))
    ring = {frozenset((one, (one + 1) % workers)) for one in range(workers)} if workers > 1 else ()
    assert len(links) == len(ring)
    assert set(map(frozenset, links)) == set(ring)
    assert [first for first, _ in sorted(links)] == list(range(len(links)))  # it tells the speed
    for pairs in rounds:
        ends = list(chain.from_iterable(pairs))
        assert len(ends) == len(set(ends))


@given(st.integers(3, 30), st.data())
def test_a_worker_with_a_slow_network_is_told_from_its_neighbours(
    workers: int, data: st.DataObject
) -> None:
    slow = data.draw(st.integers(0, workers - 1))
    links = [1.0 if slow in {one, (one + 1) % workers} else 8.0 for one in range(workers)]
    found = speeds_of([(5.0, link) for link in links], 1)
    assert [one.link for one in found] == [1.0 if n == slow else 8.0 for n in range(workers)]


@pytest.mark.parametrize(
    ("told", "processes", "expected"),
    [
        ([(5.0, 0.0)], 1, [Speed(5.0, None)]),
        ([(5.0, 0.0), (4.0, 0.0)], 2, [Speed(4.0, None)]),
        ([(5.0, 2.0), (4.0, 0.0)], 1, [Speed(5.0, 2.0), Speed(4.0, 2.0)]),
        (
            [(5.0, 2.0), (4.0, 0.0), (3.0, 0.0), (6.0, 0.0)],
            2,
            [Speed(4.0, 2.0), Speed(3.0, 2.0)],
        ),
        (
            [(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)],
            1,
            [Speed(5.0, 3.0), Speed(5.0, 2.0), Speed(5.0, 3.0)],
        ),
    ],
)
def test_a_worker_is_as_fast_as_its_slowest_device(
    told: list[tuple[float, float]], processes: int, expected: list[Speed]
) -> None:
    assert speeds_of(told, processes) == expected


def test_the_log_has_the_range() -> None:
    speeds = [Speed(4e12, 2e9), Speed(5e12, 3e9)]
    text = "speeds before the first step: devices 4000 to 5000 GFLOP/s; links 2 to 3 GB/s"
    assert summary(speeds) == text
    assert summary([Speed(4e12, None)]).endswith("devices 4000 to 4000 GFLOP/s")


@dataclass(frozen=True)
class SlowNetwork:
    """One of the processes sends and receives slowly."""

    rank: int
    plan: Plan

    def __call__(self) -> None:
        if int(os.environ["RANK"]) == self.rank:
            for name in ("send", "receive"):
                setattr(Group, name, slowed(getattr(Group, name)))
        train(self.plan)


def slowed(transfer: Callable[..., Pending]) -> Callable[..., Pending]:
    def slowly(*given: Any) -> Pending:
        time.sleep(0.1)
        return transfer(*given)

    return slowly


def test_between_processes_the_network_of_one_is_slow() -> None:
    slow = SlowNetwork(1, Plan(total=1, check_speed=True))
    ended = run_world(3, slow, by_rank=lambda _: OWN_WORKER)
    found = re.search(r"links ([\d.]+) to ([\d.]+) GB/s", ended[0].said)
    assert found is not None, ended[0].said
    assert float(found[1]) < 0.5 * float(found[2])


def test_random_numbers_of_the_training_are_not_used() -> None:
    before = torch.get_rng_state()
    assert flops_of(torch.device("cpu"), seconds=0.01) > 0
    assert torch.equal(torch.get_rng_state(), before)
