from typing import Any

import pytest

from spotrun.api.names import Phase
from tests.support.jobs.builders import a_job
from tests.support.jobs.decided import phase


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [
        ({"finishWithin": "1h", "onMissed": "Fail"}, Phase.FAILED),
        ({"finishWithin": "1h"}, Phase.PENDING),
        ({"finishWithin": "2h", "onMissed": "Fail"}, Phase.PENDING),
        ({"finishBefore": "2026-03-02T12:00:00Z", "onMissed": "Fail"}, Phase.FAILED),
        ({"finishBefore": "2026-03-02T12:00:01Z", "onMissed": "Fail"}, Phase.PENDING),
    ],
)
def test_a_deadline_ends_a_job_only_if_it_says_so(
    deadline: dict[str, Any], expected: Phase
) -> None:
    job = a_job(1, deadline=deadline)
    assert phase(job)[0] is expected
    if expected is Phase.FAILED:
        assert phase(job)[1] == "DeadlineMissed"
