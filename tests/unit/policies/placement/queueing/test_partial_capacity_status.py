"""The words for a job that keeps to fewer workers, since others did not come."""

from dataclasses import replace

import pytest

from spotrun.policies.placement.queueing.partial_capacity_status import (
    asks_for_fewer,
    waits_before_asking_again,
    why_fewer,
)
from spotrun.state.job_state import NOTHING_UNUSED, JobState, Unused
from tests.support.jobs.builders import later

TOO_FEW = Unused(count=1, size=0, room=1, retry_at=later(60))
AGAIN = "so unused ones were given back; the operator asks for more at 2026-03-02T12:01:00Z"
SOME = replace(TOO_FEW, size=4)


@pytest.mark.parametrize(
    ("unused", "expected"),
    [
        pytest.param(NOTHING_UNUSED, (False, False, None), id="all came"),
        pytest.param(replace(SOME, retry_at=None), (False, False, None), id="all are asked again"),
        pytest.param(
            SOME,
            (
                True,
                False,
                f"the nodes that came were enough for 4 workers but not for the next size, {AGAIN}",
            ),
            id="some train",
        ),
        pytest.param(
            TOO_FEW,
            (
                True,
                True,
                f"the nodes that came were too few to train, {AGAIN}",
            ),
            id="nobody trains",
        ),
    ],
)
def test_what_a_job_keeps_to_is_said(
    unused: Unused, expected: tuple[bool, bool, str | None]
) -> None:
    status = JobState(unused=unused)
    assert (
        asks_for_fewer(status),
        waits_before_asking_again(status),
        why_fewer(status),
    ) == expected
