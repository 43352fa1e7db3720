"""The storage format of a SpendLimit's state; only `read` and `write` know it."""

from spotrun.api.status_parts import spend_limit as api
from spotrun.money.units import Usd
from spotrun.policies.budget.spend.facts import SpendState
from spotrun.state.stored.optional_values import moment_of, time_of
from spotrun.state.stored.statements_codec import read_conditions, write_conditions


def read(stored: api.SpendLimitStatus) -> SpendState:
    """Read the state from the status of a SpendLimit."""
    counts = stored.jobs or api.SpendCounts()
    return SpendState(
        observed_generation=stored.observed_generation,
        message=stored.message,
        period_start=moment_of(stored.period_start),
        period_end=moment_of(stored.period_end),
        spent_usd=Usd.of(stored.spent_usd),
        deleted_usd=Usd.of(stored.deleted_usd),
        reserved_usd=Usd.of(stored.reserved_usd),
        forecast_usd=None if stored.forecast_usd is None else Usd.of(stored.forecast_usd),
        used_percent=stored.used_percent,
        running=counts.running or 0,
        held=counts.held or 0,
        suspended=counts.suspended or 0,
        held_jobs=stored.held_jobs or (),
        suspended_jobs=stored.suspended_jobs or (),
        closing=stored.closing or (),
        conditions=read_conditions(stored.conditions),
        as_of=moment_of(stored.as_of),
    )


def write(state: SpendState) -> api.SpendLimitStatus:
    """Write the state as it is stored."""
    return api.SpendLimitStatus.model_construct(
        observed_generation=state.observed_generation,
        message=state.message,
        period_start=time_of(state.period_start),
        period_end=time_of(state.period_end),
        spent_usd=state.spent_usd.amount,
        deleted_usd=state.deleted_usd.amount,
        reserved_usd=state.reserved_usd.amount,
        forecast_usd=None if state.forecast_usd is None else state.forecast_usd.amount,
        used_percent=state.used_percent,
        jobs=api.SpendCounts.model_construct(
            running=state.running, held=state.held, suspended=state.suspended
        ),
        held_jobs=state.held_jobs or None,
        suspended_jobs=state.suspended_jobs or None,
        closing=state.closing or None,
        conditions=write_conditions(state.conditions),
        as_of=time_of(state.as_of),
    )
