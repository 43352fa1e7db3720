"""The money of a search: what a trial may cost, what all will cost, and what pruning has saved.

Each trial gets a part of the budget before it begins, as the budget of its own TrainingJob. This
job keeps the cost of its last checkpoint and of its end within its budget, and its workers stop by
themselves if no operator tells them to continue. So the parts never add up to more than the whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction

from spotrun.api.capacitypool import Capacity
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.budget import HEADROOM, used_percent
from spotrun.money.shares import Resources, share_of
from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.budget.policy import end_usd
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import Trial, TuningCost, TuningState
from spotrun.state.market import Market, PoolFacts

_CAP_PLACES = Decimal("0.000001")


def spent(trials: Iterable[Trial]) -> Usd:
    """Return what trials have cost."""
    return sum((trial.usd for trial in trials), NO_USD)


def whole_trial_usd(search: TuningSnapshot, trials: Iterable[Trial]) -> Usd | None:
    """Return what a trial costs that is not stopped; None while this is unknown.

    It is the median of the complete trials; before there are any, the forecast of the jobs that
    run; before that, the market's price over `trials.expectedDuration`.
    """
    known = tuple(trials)
    complete = [one.usd for one in known if one.phase is TrialPhase.SUCCEEDED]
    if complete:
        return _median(complete)
    states = [child.state.cost for child in search.children.values()]
    forecasts = [cost.forecast_usd for cost in states if cost.forecast_usd is not None]
    if forecasts:
        return _median(forecasts)
    duration, rate = search.spec.trials.expected_duration, _rate(search, known)
    if duration is not None and rate:
        return rate.over(duration.exact_seconds).as_stored
    ended = [one.usd for one in known if one.has_ended and one.usd]
    return _median(ended) if ended else None


def next_cap(search: TuningSnapshot, status: TuningState) -> Usd | None:
    """Return the part of the budget for a trial that begins now; None: there is no room.

    The trials that may run at once share the free money; a trial that ends gives back what it did
    not spend.
    """
    budget = search.spec.budget
    limit = budget.max_cost_usd if budget is not None else None
    assert limit is not None, "there is a limit"
    free = Usd.of(limit) - _bound(search, status.trials)
    needed = needed_usd(search, status.trials)
    if free <= NO_USD or needed > free:
        return None
    cap = max(Usd(free.exact / num_free(search, status)), needed)
    own = search.spec.template.spec.budget
    if own is not None and own.max_cost_usd is not None:
        cap = min(cap, Usd.of(own.max_cost_usd))
    rounded = Usd(cap.decimal.quantize(_CAP_PLACES, rounding=ROUND_DOWN))
    return rounded if rounded > _too_small(status.trials) else None


def market_rate(spec: TrainingJobSpec, market: Market, requests: Resources) -> UsdPerHour | None:
    """Return the price of a trial on the cheapest fitting nodes; None if no price is known."""
    rates = [
        pool.usd_per_hour * share_of(requests, pool.allocatable)
        for pool in _pools(spec, market)
        if pool.usd_per_hour is not None and pool.allocatable is not None
    ]
    return UsdPerHour(min(rates) * spec.workers.replicas) if rates else None


def free_workers(spec: TrainingJobSpec, market: Market) -> int:
    """Return how many more workers of trials fit on existing nodes."""
    return sum(pool.free_slots for pool in _pools(spec, market))


def needed_usd(search: TuningSnapshot, trials: Sequence[Trial]) -> Usd:
    """Return the smallest part with which a trial begins: more than its expected cost and its end.

    A job stops while it can still pay for its last checkpoint and the end of its workers.
    """
    expected = whole_trial_usd(search, trials) or NO_USD
    return expected * HEADROOM + end_usd(search.spec.template.spec, _rate(search, trials))


def num_free(search: TuningSnapshot, status: TuningState) -> int:
    """Return how many trials may begin beside those that train; at least 1."""
    active = sum(one.trains for one in status.trials)
    limits = search.spec.trials
    return max(1, min(limits.parallel - active, limits.max - len(status.trials)))


def cost_of(search: TuningSnapshot, status: TuningState, num_left: int) -> TuningCost:
    """Return the cost of the search, if this many trials may still begin."""
    trials = status.trials
    whole = whole_trial_usd(search, trials)
    total = spent(trials)
    budget = search.spec.budget
    limit = budget.max_cost_usd if budget is not None else None
    return TuningCost(
        usd=total,
        reserved_usd=_reserved(search, trials) if limit is not None else None,
        forecast_usd=_forecast(search, status, whole, num_left),
        trial_usd=whole,
        epoch_usd=_epoch_usd(search) or status.cost.epoch_usd,
        saved_by_pruning_usd=_saved(trials, whole),
        budget_used_percent=int(used_percent(total, Usd.of(limit)).decimal) if limit else None,
        as_of=status.cost.as_of,
    )


def _epoch_usd(search: TuningSnapshot) -> Usd | None:
    """Return the median of the cost of an epoch that jobs report; None if no job reports it."""
    costs = [child.state.cost.usd_per_epoch for child in search.children.values()]
    known = [usd for usd in costs if usd is not None]
    return _median(known) if known else None


def _pools(spec: TrainingJobSpec, market: Market) -> Iterator[PoolFacts]:
    policy = spec.placement.capacity
    spot_only, no_spot = policy is CapacityPolicy.SPOT, policy is CapacityPolicy.ON_DEMAND
    for pool in market.pools:
        is_barred = spot_only if pool.capacity is not Capacity.SPOT else no_spot
        if pool.namespaces_allowed and not is_barred:
            yield pool


def _rate(search: TuningSnapshot, trials: Iterable[Trial]) -> UsdPerHour:
    """Return the rate of a trial: of running ones, or else the higher of ended ones and market.

    The rate of an ended trial is low if it has waited long, for nodes or in a queue.
    """
    costs = [child.state.cost for child in search.children.values()]
    running = [cost.usd_per_hour for cost in costs if cost.usd_per_hour]
    if running:
        return max(running)
    past = (_past_rate(one) for one in trials)
    return max([search.usd_per_hour or NO_RATE, *(rate for rate in past if rate)])


def _past_rate(trial: Trial) -> UsdPerHour | None:
    """Return what an ended trial cost per hour of its time, waits for capacity included."""
    if trial.ended_at is None or trial.begun_at is None or trial.ended_at <= trial.begun_at:
        return None
    seconds = Fraction(seconds_between(trial.begun_at, trial.ended_at))
    return UsdPerHour(trial.usd.exact * 3600 / seconds)


def _bound(search: TuningSnapshot, trials: Sequence[Trial]) -> Usd:
    """Return the money that is spent, or that trials may spend."""
    return sum((one.usd for one in trials), NO_USD) + _reserved(search, trials)


def _too_small(trials: Iterable[Trial]) -> Usd:
    """Return a part that proved to pay only for a trial's end; zero if there was none."""
    caps = (
        one.cap_usd
        for one in trials
        if one.reason is TuningReason.BUDGET_EXCEEDED and one.cap_usd and one.usd * 2 < one.cap_usd
    )
    return max(caps, default=NO_USD)


def _reserved(search: TuningSnapshot, trials: Sequence[Trial]) -> Usd:
    """Return what trials may still spend; a complete one only spends its workers' end."""
    kept = sum((_most(one) - one.usd for one in trials if one.trains), NO_USD)
    ending = [one for one in trials if one.is_complete and not one.has_ended]
    if not ending:
        return kept
    end = end_usd(search.spec.template.spec, _rate(search, trials))
    return kept + sum((min(_most(one) - one.usd, end) for one in ending), NO_USD)


def _most(trial: Trial) -> Usd:
    return max(trial.usd, trial.cap_usd or NO_USD)


def _forecast(
    search: TuningSnapshot, status: TuningState, whole: Usd | None, num_left: int
) -> Usd | None:
    """Return the expected cost at the end: later trials are assumed to cost what ended ones did."""
    trials = status.trials
    ended = [one.usd for one in trials if one.has_ended]
    if whole is None and (num_left or len(ended) < len(trials)):
        return None
    usual = Usd(spent_exact(ended) / len(ended)) if ended else whole or NO_USD
    running = (max((whole or NO_USD) - one.usd, NO_USD) for one in trials if not one.has_ended)
    total = spent(trials) + sum(running, NO_USD) + usual * num_left
    budget = search.spec.budget
    if budget is None or budget.max_cost_usd is None:
        return total.as_stored
    return max(spent(trials), min(total, Usd.of(budget.max_cost_usd))).as_stored


def spent_exact(sums: Iterable[Usd]) -> Fraction:
    """Return an exact sum."""
    return sum((one.exact for one in sums), Fraction())


def _saved(trials: Iterable[Trial], whole: Usd | None) -> Usd | None:
    pruned = [one for one in trials if one.phase is TrialPhase.PRUNED]
    if whole is None or not pruned:
        return None
    return sum((max(whole - one.usd, NO_USD) for one in pruned), NO_USD)


def _median(sums: list[Usd]) -> Usd:
    ranked = sorted(sums)
    middle = len(ranked) // 2
    if len(ranked) % 2:
        return ranked[middle]
    return Usd((ranked[middle - 1].exact + ranked[middle].exact) / 2).as_stored
