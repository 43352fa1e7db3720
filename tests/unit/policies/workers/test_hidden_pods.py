"""Who must have a pod that caches do not show."""

import pytest

from spotrun.api.cost import Accumulators, Rate
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Intervals, WorkerIds
from spotrun.policies.workers.hidden_pods import hidden
from spotrun.state.job_state import NO_WORLD
from spotrun.state.stored.cost_codec import read_sums
from tests.support.jobs.builders import JobBuilder, a_job

TRAINING = a_job(3, min=1).training(0, 1, 2)
RATES = read_sums(Accumulators(rates=(Rate(workers=WorkerIds("0-2"), usd_per_hour=Amount("1")),)))
NEVER = frozenset[int]()


@pytest.mark.parametrize(
    ("job", "shown_before", "expected"),
    [
        pytest.param(TRAINING, {0, 1, 2}, set(), id="all are shown"),
        pytest.param(TRAINING.without(1), NEVER, {1}, id="a member of the world is not"),
        pytest.param(
            TRAINING.without(1).with_status(world=NO_WORLD, accumulators=RATES),
            NEVER,
            {1},
            id="one that costs something is not",
        ),
        pytest.param(
            TRAINING.without(1).with_status(world=NO_WORLD), {0, 1}, {1}, id="one was shown before"
        ),
        pytest.param(
            TRAINING.without(1).with_status(settled=Intervals("1").ranges),
            {0, 1},
            set(),
            id="it was let go of",
        ),
        pytest.param(
            a_job(2).with_status(next_worker_id=2), NEVER, set(), id="nobody was ever made"
        ),
    ],
)
def test_whoever_had_a_pod_and_is_not_settled_is_hidden_where_it_is_not_shown(
    job: JobBuilder, shown_before: frozenset[int], expected: set[int]
) -> None:
    assert hidden(job.snapshot(), frozenset(shown_before)) == expected
