"""Whatever happens to a job or its operator, it does not cost more than its budget allows."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spotrun.api.names import SuspendedBy
from tests.support.jobs.builders import NOW
from tests.support.jobs.stored_state import sums_of
from tests.support.money.budget_lives import a_life

LIVES = st.fixed_dictionaries(
    {
        "workers": st.integers(1, 4),
        "limit_minutes": st.floats(6, 30),
        "answers": st.booleans(),
        "crashes": st.lists(st.integers(0, 4), max_size=6),
        "on_exceeded": st.sampled_from(["Suspend", "Fail"]),
        "absences": st.lists(st.tuples(st.floats(0, 20), st.floats(1, 240)), max_size=2),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=4, deadline=None)
@given(LIVES)
def test_no_job_costs_more_than_its_budget(life: dict[str, Any]) -> None:
    cluster = a_life(**life)
    spent, sums = cluster.metered_usd(), sums_of(cluster.status)
    assert spent <= cluster.limit_usd
    assert sums.usd is not None
    assert abs(Fraction(sums.usd) - spent) < Fraction(1, 10**9)
    assert cluster.now - NOW > timedelta(minutes=life["limit_minutes"] / 20), (
        "it has done something"
    )


@pytest.mark.parametrize("answers", [True, False], ids=["they save and leave", "they are killed"])
def test_workers_that_hear_nothing_for_hours_keep_the_budget_by_themselves(answers: bool) -> None:
    cluster = a_life(
        2, 30.0, answers=answers, crashes=(), on_exceeded="Suspend", absences=[(1.0, 600.0)]
    )
    lives = [cluster.ended[uid] - since for uid, since in cluster.scheduled.items()]
    assert timedelta(minutes=15) < max(lives) < timedelta(minutes=30)
    assert 0 < cluster.metered_usd() <= cluster.limit_usd
    assert cluster.status.suspended_by == (SuspendedBy.BUDGET,)
