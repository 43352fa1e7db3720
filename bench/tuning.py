"""The search at equal dollars, beside plain Optuna and random draws, and what a suggestion takes.

Six synthetic objectives, whose minimum is known and whose trials differ in cost: 20 times as much
at one end of their first parameter as at the other, wherever the minimum lies (of the last one the
cost follows from the model's size). Each search may spend what 30 random trials cost on average;
the regret is what the best trial within that is above the minimum. A row has the median over seeds;
`ratio` divides it by plain TPE's: Optuna alone with its defaults, which knows nothing of costs.

Run as `.venv/bin/python bench/tuning.py [--quick] [--only regret] [--jobs 2]`.
"""

import argparse
import asyncio
import json
import math
import os
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, geometric_mean, median
from time import perf_counter

import optuna

from devcluster.argument_types import how_many
from spotrun.runtime.suggestions import answer
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
    Space,
    Suggestion,
    Trial,
    Uniform,
    Values,
    When,
    needs_process,
    suggest,
)
from spotrun.search.draws import draw
from spotrun.search.process.optuna_search import ask

TRIALS_PAID = 30
"""The budget, in random trials: what a team spends on a search of some parameters."""
DEARER = 20.0
"""How many times as much a trial costs at the end of the first parameter: 1 to 20 layers, say."""
LEAST_USD = 0.10


@dataclass(frozen=True)
class Objective:
    """A function with a known minimum, and what a trial costs."""

    name: str
    space: Space
    minimum: float
    loss: Callable[[Values], float]
    usd: Callable[[Values], float]


def numbers(values: Values) -> list[float]:
    """Return the values in the order of their names."""
    return [float(values[name]) for name in sorted(values)]


def box(
    name: str,
    bounds: Iterable[tuple[float, float]],
    minimum: float,
    loss: Callable[[list[float]], float],
) -> Objective:
    """Return a function over a box; the cost grows in its first parameter."""
    domains = [Uniform(low, high) for low, high in bounds]
    space = Space(tuple(Parameter(f"x{i}", one) for i, one in enumerate(domains)))

    def usd(values: Values) -> float:
        return LEAST_USD * DEARER ** domains[0].position(values["x0"])

    return Objective(name, space, minimum, lambda values: loss(numbers(values)), usd)


def branin(x: list[float]) -> float:
    """Branin and Hoo 1972; three minima, at x0 of -pi, pi and 3 pi."""
    curve = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_A3 = ((3, 10, 30), (0.1, 10, 35), (3, 10, 30), (0.1, 10, 35))
_P3 = (
    (0.3689, 0.1170, 0.2673),
    (0.4699, 0.4387, 0.7470),
    (0.1091, 0.8732, 0.5547),
    (0.0381, 0.5743, 0.8828),
)
_A6 = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_P6 = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann(x: list[float]) -> float:
    """Hartmann 1973, in three or six dimensions."""
    scales, centres = (_A3, _P3) if len(x) == 3 else (_A6, _P6)
    return -sum(
        weight
        * math.exp(-sum(a * (one - p) ** 2 for a, one, p in zip(scale, x, centre, strict=True)))
        for weight, scale, centre in zip(_WEIGHTS, scales, centres, strict=True)
    )


def rosenbrock(x: list[float]) -> float:
    """Rosenbrock 1960: a bent valley, with its minimum at 1."""
    return sum(100 * (after - one**2) ** 2 + (1 - one) ** 2 for one, after in pairwise(x))


def levy(x: list[float]) -> float:
    """Levy 13: many minima, the lowest at 1."""
    w = [1 + (one - 1) / 4 for one in x]
    middle = sum((one - 1) ** 2 * (1 + 10 * math.sin(math.pi * one + 1) ** 2) for one in w[:-1])
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + middle + last


def training() -> Objective:
    """A made-up training: larger models are better and dearer, and want a lower learning rate."""
    space = Space(
        (
            Parameter("layers", Int(2, 24)),
            Parameter("width", Int(64, 1024, 64)),
            Parameter("lr", LogUniform(1e-5, 1e-1)),
            Parameter("optimizer", Categorical(("adam", "sgd"))),
            Parameter("momentum", Uniform(0.0, 0.99), (When("optimizer", ("sgd",)),)),
            Parameter("dropout", Uniform(0.0, 0.5)),
        )
    )

    def size(values: Values) -> float:
        return float(values["layers"]) * float(values["width"]) ** 2

    def loss(values: Values) -> float:
        best_lr = -2.5 - 0.25 * math.log10(size(values) / 1e4)
        if values["optimizer"] == "sgd":
            best_lr += 1.0
            tuned = 0.05 + 0.5 * (float(values["momentum"]) - 0.9) ** 2
        else:
            tuned = 0.0
        off = math.log10(float(values["lr"])) - best_lr
        return (
            2.0 * (size(values) / 1e4) ** -0.3
            + 0.4 * off**2
            + tuned
            + (float(values["dropout"]) - 0.1) ** 2
        )

    largest = 2.0 * (24 * 1024**2 / 1e4) ** -0.3
    return Objective("training", space, largest, loss, lambda values: size(values) * 1e-6 + 0.02)


OBJECTIVES = (
    box("branin", [(-5, 10), (0, 15)], 0.397887, branin),
    box("hartmann3", [(0, 1)] * 3, -3.86278, hartmann),
    box("hartmann6", [(0, 1)] * 6, -3.32237, hartmann),
    box("rosenbrock4", [(-2, 2)] * 4, 0.0, rosenbrock),
    box("levy4", [(-10, 10)] * 4, 0.0, levy),
    training(),
)


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
        return trial.suggest_categorical(name, domain.choices)
    if isinstance(domain, Int):
        return trial.suggest_int(name, domain.low, domain.high, step=domain.step)
    return trial.suggest_float(name, domain.low, domain.high, log=isinstance(domain, LogUniform))


Search = Callable[[Objective, int, float], Trials]
SEARCHES: dict[str, Search] = {
    "spotrun per dollar": partial(ours, lambda seed: Bayesian(seed, per_dollar=True)),
    "spotrun": partial(ours, Bayesian),
    "optuna": optuna_alone,
    "random": partial(ours, Random),
}


def budget_usd(objective: Objective) -> float:
    """Return what so many random trials cost on average."""
    points = (objective.space.at(partial(draw, 0, n)) for n in range(2000))
    return TRIALS_PAID * fmean(map(objective.usd, points))


def regret(objective: Objective, search: Search, seed: int) -> float:
    """Return how much the best trial that was paid in full is above the minimum."""
    usd, best, spent = budget_usd(objective), math.inf, 0.0
    for loss, cost in search(objective, seed, usd):
        spent += cost
        if spent > usd:
            return best - objective.minimum
        best = min(best, loss)
    raise AssertionError("a search ends with its budget")


def regrets(case: tuple[int, str, int]) -> float:
    """Return a regret by the names of what to compare, for a process of a pool."""
    place, search, seed = case
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return regret(OBJECTIVES[place], SEARCHES[search], seed)


def compare(places: Sequence[int], seeds: int, jobs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each objective, and their mean."""
    ratios: dict[str, list[float]] = {name: [] for name in SEARCHES}
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a thread each; these are small matrices
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for place in places:
            row: dict[str, object] = {"bench": "tune_regret", "objective": OBJECTIVES[place].name}
            cases = [(place, name, seed) for name in SEARCHES for seed in range(seeds)]
            found = list(pool.map(regrets, cases, chunksize=max(seeds // 4, 1)))
            medians = {
                name: median(found[at * seeds : (at + 1) * seeds])
                for at, name in enumerate(SEARCHES)
            }
            for name, value in medians.items():
                ratios[name].append(value / medians["optuna"])
            yield row | {"seeds": seeds, "regret": rounded(medians)}
    means = {name: geometric_mean(some) for name, some in ratios.items()}
    yield {
        "bench": "tune_regret_per_dollar_ratio",
        "value": round(means["spotrun per dollar"], 3),
        "wanted": 0.8,
        "ratio": rounded(means),
        "by_objective": {name: [float(f"{one:.3g}") for one in ratios[name]] for name in SEARCHES},
        "seeds": seeds,
    }


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Return values to three digits."""
    return {name: float(f"{value:.3g}") for name, value in values.items()}


def suggestion(trials: int, repeats: int) -> Iterator[dict[str, object]]:
    """Yield what a suggestion takes with a long history: time, and memory here and in the child."""
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
        "bench": "tune_suggest_seconds",
        "value": round(median(seconds), 3),
        "wanted": 1.0,
        "range": [round(seconds[0], 3), round(seconds[-1], 3)],
        **about,
    }
    yield {
        "bench": "tune_rss_mb",
        "value": round(resident_mb() - before, 1),
        "wanted": 60,
        "process_mb": round(child, 1),
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
    # First: a process's memory grows with what it has done before.
    if options.only != "regret":
        for row in suggestion(100 if options.quick else 1000, 1 if options.quick else 5):
            print(json.dumps(row), flush=True)
    if options.only != "suggestion":
        seeds, jobs = (1, 1) if options.quick else (options.seeds, options.jobs)
        for row in compare(places[:2] if options.quick else places, seeds, jobs):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
