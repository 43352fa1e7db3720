from typing import Any

import pytest

from spotrun.state.sizes import largest, wanted
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


def test_the_largest_size_that_can_be_had() -> None:
    workers = a_spec(8, min=2, max=8, perReplica=2).workers
    assert [largest(workers, n) for n in (0, 1, 2, 3, 7, 8, 9)] == [0, 0, 2, 2, 6, 8, 8]
