"""The plan of saves within `checkpoint.budgetUsd`: the operator's answers to workers contain it."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from statistics import median

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.text_values import Duration
from spotrun.api.spec.checkpoint import Checkpoint
from spotrun.money.units import Usd
from spotrun.policies.cost.bill import bill
from spotrun.policies.cost.storage.strategy import SaveFacts, Strategy, choose
from spotrun.policies.policy import Policy
from spotrun.policies.pool.interruption_rate import PRIOR_PER_HOUR, interruptions_per_hour
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Worker
from spotrun.state.stored.training import SavingPlan
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import reported_progress, world_members

FAILURES_PER_HOUR = 0.01
"""Scripts, drivers and machines fail as well: once in four days is assumed, not measured."""
_SAME = 1.1
"""A plan is kept while the best interval differs from its own by no more than this factor."""


def plan_saves(view: View, status: JobState) -> JobState:
    """Choose how often to save and how many to keep, as soon as the size of a save is known."""
    checkpoint = view.job.spec.checkpoint
    if checkpoint is None or checkpoint.budget_usd is None:
        return status if status.saving is None else replace(status, saving=None)
    price, facts = view.job.storage_price, _facts(view, status, checkpoint)
    if status.phase in FINISHED or price is None or facts is None:
        return status
    budget = Usd.of(checkpoint.budget_usd)
    chosen = choose(facts, price, budget)
    if _stands(status.saving, chosen):
        return status
    plan = SavingPlan(
        every_seconds=_whole_seconds(chosen),
        keep=chosen.keep,
        usd_per_month=_cents(chosen.usd),
        lost_work_usd_per_month=_cents(Usd(Decimal(f"{chosen.lost_work_usd:.6f}"))),
        within_budget=chosen.is_within,
        why=_why(chosen, budget, facts.keep),
    )
    return record(view, replace(status, saving=plan), "Save", plan.why, _numbers(facts))


def _facts(view: View, status: JobState, checkpoint: Checkpoint) -> SaveFacts | None:
    """Return the facts on which the choice depends; None before a checkpoint was measured."""
    sums, members = status.accumulators.storage, world_members(view, status)
    rate = float(bill(view, status).usd_per_hour.exact)
    if sums is None or not sums.stored_bytes or not sums.checkpoints or not members or not rate:
        return None
    costs = [one.save_seconds for one in reported_progress(view, status) if one.save_seconds]
    every = checkpoint.every.duration
    return SaveFacts(
        checkpoint_bytes=sums.stored_bytes // sums.checkpoints,
        processes=len(members) * view.job.processes,
        save_seconds=median(costs) if costs else 0.0,
        losses_per_hour=_losses_per_hour(view, members),
        usd_per_hour=rate,
        keep=checkpoint.keep,
        every_seconds=float(every.exact_seconds) if every is not None else None,
    )


def _losses_per_hour(view: View, members: Iterable[Worker]) -> float:
    """Return how often no copy of the state is left.

    A job with one copy loses it with any of its workers. Several copies are lost if a pool takes
    all its nodes at once, which the rate of the pool counts once.
    """
    members = list(members)
    rates = [_rate(view, worker) for worker in members]
    has_one_copy = len(members) <= view.job.spec.workers.per_replica
    return FAILURES_PER_HOUR + (sum(rates) if has_one_copy else max(rates, default=0.0))


def _rate(view: View, worker: Worker) -> float:
    node, market = worker.node, view.job.market
    if node is None or node.capacity is not Capacity.SPOT:
        return 0.0
    pool = market.pool(node.pool)
    return PRIOR_PER_HOUR if pool is None else interruptions_per_hour(pool, market.pools)


def _stands(plan: SavingPlan | None, chosen: Strategy) -> bool:
    if plan is None or plan.keep != chosen.keep or plan.within_budget != chosen.is_within:
        return False
    return 1 / _SAME <= _whole_seconds(chosen) / plan.every_seconds <= _SAME


def _whole_seconds(chosen: Strategy) -> int:
    """Return the interval as it is stored, at least 1 s: a job may ask for 500ms."""
    return max(int(chosen.every_seconds), 1)


def _why(chosen: Strategy, budget: Usd, wanted: int) -> str:
    every = Duration.of(chosen.every_seconds)
    kept = f"{chosen.keep} kept" if chosen.keep == wanted else f"{chosen.keep} of {wanted} kept"
    lost = Usd(Decimal(f"{chosen.lost_work_usd:.2f}"))
    words = f"a save every {every}, {kept}: {chosen.usd} a month of {budget}"
    if not chosen.is_within:
        words += ", which is not enough: no cheaper plan saves everything, so raise budgetUsd"
    elif chosen.is_rarer:
        words += "; the requests of more frequent saves would exceed the budget"
    return f"{words}. Work that is lost and done again is expected to cost {lost} a month"


def _numbers(facts: SaveFacts) -> dict[str, str]:
    return {
        "checkpointBytes": str(facts.checkpoint_bytes),
        "saveSeconds": f"{facts.save_seconds:.2f}",
        "lossesPerHour": f"{facts.losses_per_hour:.3f}",
        "usdPerHour": f"{facts.usd_per_hour:.2f}",
    }


def _cents(usd: Usd) -> Usd:
    return Usd(round(usd.exact, 2))


SAVING_PLAN = Policy(plan_saves)
