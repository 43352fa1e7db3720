"""Whatever happens to a job, it does not cost more than its budget allows."""

from datetime import timedelta
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.budget_lives import a_life
from tests.decide_builders import NOW


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=4, deadline=None)
@given(
    st.integers(1, 4),
    st.floats(6, 30),
    st.booleans(),
    st.lists(st.integers(0, 4), max_size=6),
    st.sampled_from(["Suspend", "Fail"]),
)
def test_no_job_costs_more_than_its_budget(
    workers: int, limit_minutes: float, answers: bool, crashes: list[int], on_exceeded: str
) -> None:
    cluster = a_life(
        workers, limit_minutes, answers=answers, crashes=crashes, on_exceeded=on_exceeded
    )
    spent, sums = cluster.metered_usd(), cluster.status.accumulators
    assert spent <= cluster.limit_usd
    assert sums is not None
    assert sums.usd is not None
    assert abs(Fraction(sums.usd) - spent) < Fraction(1, 10**9)
    assert cluster.now - NOW > timedelta(minutes=limit_minutes / 20), "it has done something"
