"""The search for equal money, compared with plain Optuna and random draws; a suggestion's cost.

Six synthetic objectives with a known minimum and trials of different cost: 20 times as much at one
end of their first parameter as at the other, wherever the minimum is (for the last one, the cost
follows from the model's size). Each search may spend the mean cost of 30 random trials; the regret
is the difference between the best trial within that and the minimum. A row has the median over
seeds; `ratio` divides it by that of plain TPE: Optuna alone with its defaults, without costs.

Run as `.venv/bin/python bench/tuning.py [--quick] [--only regret] [--jobs 2]`.
"""

import argparse
import asyncio
import json
import math
import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, geometric_mean, median
from time import perf_counter

import optuna

from bench.tuning_objectives import OBJECTIVES, Objective
from devcluster.argument_types import how_many
from spotrun.runtime.asking.suggestions import answer
from spotrun.search import (
    Algorithm,
    Bayesian,
    Categorical,
    Direction,
    Int,
    LogUniform,
    Outcome,
    Parameter,
    Question,
    Random,
    Report,
    Suggestion,
    Trial,
    needs_process,
    suggest,
)
from spotrun.search.draws import draw
from spotrun.search.process.optuna_search import ask

TRIALS_PAID = 30
"""The budget, in random trials: a usual amount for a search of some parameters."""


Trials = Iterator[tuple[float, float]]  # losses and dollars, without an end


def ours(
    algorithm: Callable[[int], Algorithm], objective: Objective, seed: int, usd: float
) -> Trials:
    """Yield the trials of a search of ours, one after the other."""
    history: list[Trial] = []
    spent = 0.0
    for number in count():
        left = max(1 - spent / usd, 0.0)
        question = Question(
            objective.space, algorithm(seed), Direction.MINIMIZE, number, tuple(history), left
        )
        found = ask(question) if needs_process(question) else suggest(question)
        assert isinstance(found, Suggestion)
        loss, cost = objective.loss(found.values), objective.usd(found.values)
        history.append(
            Trial(number, found.values, Outcome.COMPLETE, loss, (Report(1, loss),), cost)
        )
        spent += cost
        yield loss, cost


def optuna_alone(objective: Objective, seed: int, _usd: float) -> Trials:
    """Yield the trials of Optuna with its defaults, as its users call it."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    while True:
        trial = study.ask()
        values = objective.space.fill(partial(_asked, trial))
        loss = objective.loss(values)
        study.tell(trial, loss)
        yield loss, objective.usd(values)


def _asked(trial: optuna.Trial, parameter: Parameter) -> str | int | float | bool:
    domain, name = parameter.domain, parameter.name
    if isinstance(domain, Categorical):
        return domain.choices[trial.suggest_categorical(name, range(domain.count))]
    if isinstance(domain, Int):
        return trial.suggest_int(name, domain.low, domain.high, step=domain.step)
    return trial.suggest_float(name, domain.low, domain.high, log=isinstance(domain, LogUniform))


OURS = "spotrun per dollar"
Search = Callable[[Objective, int, float], Trials]
SEARCHES: dict[str, Search] = {
    OURS: partial(ours, lambda seed: Bayesian(seed, per_dollar=True)),
    "spotrun": partial(ours, Bayesian),
    "optuna": optuna_alone,
    "random": partial(ours, Random),
}


def budget_usd(objective: Objective) -> float:
    """Return the mean cost of `TRIALS_PAID` random trials."""
    points = (objective.space.at(partial(draw, 0, n)) for n in range(2000))
    return TRIALS_PAID * fmean(map(objective.usd, points))


def regret(objective: Objective, search: Search, seed: int) -> float:
    """Return the difference between the best fully paid trial and the minimum."""
    usd, best, spent = budget_usd(objective), math.inf, 0.0
    for loss, cost in search(objective, seed, usd):
        spent += cost
        if spent > usd:
            return best - objective.minimum
        best = min(best, loss)
    raise AssertionError("a search ends with its budget")


def regrets(case: tuple[int, str, int]) -> float:
    """Return a regret for a case given by name, for a process of a pool."""
    place, search, seed = case
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return regret(OBJECTIVES[place], SEARCHES[search], seed)


def compare(places: Sequence[int], seeds: int, jobs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each objective, and their mean."""
    ratios: dict[str, list[float]] = {name: [] for name in SEARCHES}
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread each: the matrices are small
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for place in places:
            cases = [(place, name, seed) for name in SEARCHES for seed in range(seeds)]
            found = list(pool.map(regrets, cases, chunksize=max(seeds // 4, 1)))
            medians = {
                name: median(found[at * seeds : (at + 1) * seeds])
                for at, name in enumerate(SEARCHES)
            }
            for name, value in medians.items():
                ratios[name].append(value / medians["optuna"])
            yield {
                "metric": f"tune_regret_{OBJECTIVES[place].name}",
                "value": rounded(medians)[OURS],
                "unit": "above the minimum",
                "regret": rounded(medians),
                "seeds": seeds,
            }
    means = {name: geometric_mean(some) for name, some in ratios.items()}
    yield {
        "metric": "tune_regret_per_dollar_ratio",
        "value": round(means[OURS], 3),
        "unit": "of plain TPE's",
        "allowed": 0.8,
        "ratio": rounded(means),
        "seeds": seeds,
    }


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Return values to three digits."""
    return {name: float(f"{value:.3g}") for name, value in values.items()}


def suggestion(trials: int, repeats: int) -> Iterator[dict[str, object]]:
    """Yield the cost of a suggestion with a long history: time, and memory of both processes."""
    objective = OBJECTIVES[-1]
    history = []
    for number in range(trials):
        values = objective.space.at(partial(draw, 1, number))
        loss = objective.loss(values)
        reports = tuple(Report(step, loss + 100 / step) for step in range(100, 1100, 100))
        usd = objective.usd(values)
        history.append(Trial(number, values, Outcome.COMPLETE, loss, reports, usd))
    question = Question(
        objective.space, Bayesian(1, per_dollar=True), Direction.MINIMIZE, trials, tuple(history)
    )
    before = resident_mb()
    seconds = []
    for _ in range(repeats):
        began = perf_counter()
        asyncio.run(answer(question))
        seconds.append(perf_counter() - began)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    about = {"trials": trials, "repeats": repeats}
    seconds.sort()
    yield {
        "metric": "tune_suggest_seconds",
        "value": round(median(seconds), 3),
        "unit": "s",
        "allowed": 1.0,
        "range": [round(seconds[0], 3), round(seconds[-1], 3)],
        **about,
    }
    yield {
        "metric": "tune_rss_mb",
        "value": max(round(resident_mb() - before, 1), 0.0),
        "unit": "MB",
        "allowed": 60,
        "process_mb": round(child, 1),  # freed after the answer
        **about,
    }


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Print rows as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two objectives, two seeds")
    parser.add_argument("--only", choices=("regret", "suggestion"))
    parser.add_argument("--objective", choices=[one.name for one in OBJECTIVES])
    parser.add_argument("--seeds", type=how_many, default=30)
    parser.add_argument("--jobs", type=how_many, default=2)
    options = parser.parse_args()
    places = [
        place for place, one in enumerate(OBJECTIVES) if options.objective in (None, one.name)
    ]
    # First, because a process' memory grows with its earlier work.
    if options.only != "regret":
        for row in suggestion(100 if options.quick else 1000, 1 if options.quick else 5):
            print(json.dumps(row), flush=True)
    if options.only != "suggestion":
        seeds, jobs = (1, 1) if options.quick else (options.seeds, options.jobs)
        for row in compare(places[:2] if options.quick else places, seeds, jobs):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
