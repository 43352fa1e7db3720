"""From when on caches show that a pod was let go of."""

from typing import Any

import msgspec
import pytest

from spotrun.act.pods.finalizer import Released

DELETED = "2026-03-02T12:00:00Z"


@pytest.mark.parametrize(
    ("meta", "seen_from"),
    [
        pytest.param({}, 7, id="an ended pod stays"),
        pytest.param(
            {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 30}, 7, id="it still ends"
        ),
        pytest.param(
            {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 0, "finalizers": ["x/y"]},
            7,
            id="somebody else holds it back",
        ),
        pytest.param({"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 0}, 8, id="gone"),
        pytest.param({"deletionTimestamp": DELETED}, 8, id="gone, and it never had a grace"),
    ],
)
def test_a_pod_that_goes_with_its_last_finalizer_is_answered_as_it_was(
    meta: dict[str, Any], seen_from: int
) -> None:
    answer = {"metadata": {"name": "job-0", "resourceVersion": "7", **meta}}

    assert msgspec.convert(answer, Released).seen_from == seen_from
