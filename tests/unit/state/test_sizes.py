from typing import Any

import pytest

from spotrun.api.names import Reason
from spotrun.state.sizes import SizeLimit, largest, wanted, within
from tests.support.jobs.builders import a_spec


@pytest.mark.parametrize(
    ("replicas", "spec", "expected"),
    [
        (3, {"max": 5}, 3),
        (0, {"min": 2, "max": 5}, 2),
        (9, {"max": 5}, 5),
        (3, {"max": 8, "sizes": [2, 4, 8]}, 2),
        (1, {"max": 8, "sizes": [2, 4, 8]}, 2),
        (7, {"min": 2, "max": 8, "perReplica": 2}, 6),
    ],
)
def test_the_wanted_size(replicas: int, spec: dict[str, Any], expected: int) -> None:
    assert wanted(a_spec(replicas, **spec).workers) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((), 8),
        ((None,), 8),
        ((9,), 8),
        ((7,), 4),
        ((4, 3), 2),
        ((3, 4), 2),
        ((None, 4), 4),
        ((0,), 2),
    ],
)
def test_the_size_within_limits(limits: tuple[int | None, ...], expected: int) -> None:
    workers = a_spec(8, min=2, max=8, sizes=[2, 4, 8]).workers
    given = [SizeLimit(Reason.RATE_LIMITED, limit) for limit in limits]
    assert within(workers, given) == expected


def test_the_largest_size_that_can_be_had() -> None:
    workers = a_spec(8, min=2, max=8, perReplica=2).workers
    assert [largest(workers, n) for n in (0, 1, 2, 3, 7, 8, 9)] == [0, 0, 2, 2, 6, 8, 8]
