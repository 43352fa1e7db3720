"""The value of stopping trials early: ours compared with Ray Tune's and Optuna's, for equal money.

The trials are recorded learning curves (`bench/tuning_record.py`): real trainings of a small
language model with random values. Every search begins the same trials in the same order, four at a
time, and may spend the cost of six complete trials; a second of CPU costs a cent. So the searches
differ only in which trials they stop, and when. The regret is the difference between the best value
that was reported within the budget and the best value of all curves.

    tune_pruning_regret       the mean over orders, for each way to stop (with few curves a median
                              would jump between them); `trials` is the median number of begun
                              trials, `ends` that of trials trained to their end
    tune_asha_regret_ratio    the regret of our ASHA divided by Ray Tune's if Ray is installed (it
                              is not a dependency of the project: `pip install ray numpy`), else by
                              Optuna's

Run as `.venv/bin/python -m bench.tuning_curves [--quick] [--orders 200] [--paid 6]`.
"""

import argparse
import heapq
import importlib.util
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Protocol

import optuna

from devcluster.argument_types import how_many
from spotrun.search import (
    Asha,
    Direction,
    Hyperband,
    Judge,
    Median,
    NoPruning,
    Outcome,
    Pruning,
    Report,
    Trial,
    Values,
)

PARALLEL = 4
USD_PER_SECOND = 0.01
GRACE, REDUCTION = 10, 3
"""Rungs at 10, 30 and 90 steps of 270, for all ways with rungs."""


RECORDED = Path(__file__).with_name("tuning_curves.json")
STEPS, EVERY = 270, 10
"""The steps of a recorded training, and the steps between two recorded losses."""


@dataclass(frozen=True)
class Curve:
    """A training: its values, the duration of a step, and the loss after each `EVERY` steps."""

    values: Values
    step_seconds: float
    losses: tuple[float, ...]  # NaN after it has diverged


def read_curves(path: Path = RECORDED) -> list[Curve]:
    """Return the recorded curves."""
    return [
        Curve(
            one["values"],
            one["step_seconds"],
            tuple(math.nan if loss is None else loss for loss in one["losses"]),
        )
        for one in json.loads(path.read_text())
    ]


class Stops(Protocol):
    """A way to stop trials early."""

    def told(self, number: int, step: int, loss: float) -> set[int]:
        """Process a report; returns the numbers of the trials to stop now."""

    def complete(self, number: int) -> None:
        """Record that a trial was trained to its end."""


class Ours:
    """Judges all running trials whenever one reports, as the operator does."""

    def __init__(self, pruning: Pruning) -> None:
        self._pruning = pruning
        self._trials: dict[int, Trial] = {}

    def told(self, number: int, step: int, loss: float) -> set[int]:
        trial = self._trials.get(number, Trial(number, {}))
        self._trials[number] = replace(trial, reports=(*trial.reports, Report(step, loss)))
        judge = Judge(self._pruning, self._trials.values(), Direction.MINIMIZE)
        running = [one for one in self._trials.values() if one.outcome is Outcome.RUNNING]
        stopped = {one.number for one in running if judge.why_stopped(one) is not None}
        for one in running:
            changed = (
                replace(one, outcome=Outcome.PRUNED)
                if one.number in stopped
                else replace(one, rung=judge.rung_of(one))
            )
            self._trials[one.number] = changed
        return stopped

    def complete(self, number: int) -> None:
        self._trials[number] = replace(self._trials[number], outcome=Outcome.COMPLETE)


class RayAsha:
    """Ray Tune's scheduler, called as its controller calls it."""

    def __init__(self) -> None:
        from ray.tune.schedulers import AsyncHyperBandScheduler  # noqa: PLC0415 - if installed

        self._ray = AsyncHyperBandScheduler(
            time_attr="training_iteration",
            metric="loss",
            mode="min",
            max_t=STEPS,
            grace_period=GRACE,
            reduction_factor=REDUCTION,
        )
        self._trials: dict[int, SimpleNamespace] = {}
        self._last: dict[str, float] = {}

    def told(self, number: int, step: int, loss: float) -> set[int]:
        if number not in self._trials:
            self._trials[number] = SimpleNamespace(trial_id=str(number))
            self._ray.on_trial_add(None, self._trials[number])
        self._last = {"training_iteration": step, "loss": loss}
        said = self._ray.on_trial_result(None, self._trials[number], self._last)
        return {number} if said == self._ray.STOP and step < STEPS else set()

    def complete(self, number: int) -> None:
        self._ray.on_trial_complete(None, self._trials[number], self._last)


class OptunaHalving:
    """Optuna's pruner with the same rungs, called at each report, as its users do."""

    def __init__(self) -> None:
        pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=GRACE, reduction_factor=REDUCTION
        )
        self._study = optuna.create_study(pruner=pruner)
        self._trials: dict[int, optuna.Trial] = {}

    def told(self, number: int, step: int, loss: float) -> set[int]:
        trial = self._trials.get(number) or self._trials.setdefault(number, self._study.ask())
        trial.report(loss, step)
        if step == STEPS or not trial.should_prune():
            return set()
        self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return {number}

    def complete(self, number: int) -> None:
        trial = self._trials[number]
        self._study.tell(trial, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)


ASHA = "spotrun, ASHA"
WAYS: dict[str, Callable[[], Stops]] = {
    "no trial is stopped": lambda: Ours(NoPruning()),
    ASHA: lambda: Ours(Asha(GRACE, STEPS, REDUCTION)),
    "spotrun, Hyperband": lambda: Ours(Hyperband(GRACE, STEPS, REDUCTION)),
    "spotrun, median": lambda: Ours(Median(startup_trials=3, warmup_steps=GRACE)),
    "Optuna, successive halving": OptunaHalving,
}
if importlib.util.find_spec("ray") is not None:
    WAYS["Ray Tune, ASHA"] = RayAsha


def search(curves: Sequence[Curve], stops: Stops, usd: float) -> tuple[float, int, int]:
    """Spend this amount on trials in this order; returns the best value, trials begun and ended."""
    waiting = list(enumerate(curves))[::-1]
    at: list[tuple[float, int, int]] = []  # when a trial reports, its number, its reports so far
    gone: set[int] = set()
    best, spent, ends, now = math.inf, 0.0, 0, 0.0

    def begin() -> None:
        if waiting:
            number, curve = waiting.pop()
            heapq.heappush(at, (now + EVERY * curve.step_seconds, number, 1))

    for _ in range(PARALLEL):
        begin()
    while at:
        now, number, reports = heapq.heappop(at)
        if number in gone:
            continue
        curve = curves[number]
        spent += EVERY * curve.step_seconds * USD_PER_SECOND
        if spent > usd:
            break
        loss = curve.losses[reports - 1]
        best = min(best, loss) if math.isfinite(loss) else best
        stopped = stops.told(number, EVERY * reports, loss)
        gone |= stopped
        if number not in gone and EVERY * reports == STEPS:
            stops.complete(number)
            gone.add(number)
            ends += 1
            begin()
        elif number not in gone:
            heapq.heappush(at, (now + EVERY * curve.step_seconds, number, reports + 1))
        for _ in stopped:
            begin()
    return best, len(curves) - len(waiting), ends


def main() -> None:
    """Print rows as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three orders")
    parser.add_argument("--orders", type=how_many, default=200)
    parser.add_argument("--paid", type=how_many, default=6, help="the budget, in whole trials")
    options = parser.parse_args()
    orders = 3 if options.quick else options.orders
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    curves = read_curves()
    usd = options.paid * fmean(STEPS * curve.step_seconds * USD_PER_SECOND for curve in curves)
    lowest = min(loss for curve in curves for loss in curve.losses if math.isfinite(loss))
    regrets = {}
    for way, make in WAYS.items():
        found = [search(_shuffled(curves, seed), make(), usd) for seed in range(orders)]
        spread = sorted(best - lowest for best, _, _ in found)
        regrets[way] = fmean(spread)
        row = {
            "metric": "tune_pruning_regret",
            "value": round(regrets[way], 4),
            "unit": "above the lowest loss",
            "way": way,
            "quartiles": [round(spread[orders // 4], 4), round(spread[3 * orders // 4], 4)],
            "trials": median(begun for _, begun, _ in found),
            "ends": median(ends for _, _, ends in found),
            "orders": orders,
            "paid": options.paid,
        }
        print(json.dumps(row), flush=True)
    peer = next(way for way in reversed(WAYS) if not way.startswith("spotrun"))
    ratio = regrets[ASHA] / regrets[peer] if regrets[peer] else 1.0
    print(
        json.dumps(
            {
                "metric": "tune_asha_regret_ratio",
                "value": round(ratio, 3),
                "unit": f"of {peer}",
                "orders": orders,
                "paid": options.paid,
            }
        )
    )


def _shuffled(curves: Sequence[Curve], seed: int) -> list[Curve]:
    order = list(curves)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    return order


if __name__ == "__main__":
    main()
