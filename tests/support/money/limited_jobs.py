"""Jobs with a budget, and what is said of it."""

from typing import Any

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType
from spotrun.state.actions import Decision
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job
from tests.support.money.priced_nodes import at_work

_BUDGET = ("onExceeded", "unpriced", "maxUsdPerHour", "warnAtPercent")


def a_limited_job(max_cost_usd: str | None = None, **more: Any) -> JobBuilder:
    """Return a job of two at $1 an hour each, which have trained for an hour, with a budget."""
    limit = {} if max_cost_usd is None else {"maxCostUsd": max_cost_usd}
    limit |= {key: more.pop(key) for key in list(more) if key in _BUDGET}
    job = a_job(2, checkpoint=ON_CLAIM, budget=limit, **more).training(0, 1)
    return at_work(job, 0, 1, ready=True, arrived=1).with_facts(written_seconds=91.0)


def after(job: JobBuilder, decision: Decision) -> JobBuilder:
    """Return the job as it is stored then."""
    return job.with_state(decision.status)


def said(status: JobState) -> tuple[bool, str, str]:
    """Return what is said of the budget: whether it holds, the reason, and the words."""
    stated = find(status, ConditionType.WITHIN_BUDGET)
    assert stated is not None
    return stated.status is ConditionStatus.TRUE, stated.reason, stated.message
