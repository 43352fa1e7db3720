"""Synthetic objectives with a known minimum, whose trials differ in cost.

A trial costs 20 times as much at one end of its first parameter as at the other, wherever the
minimum is; for the last objective the cost follows from the size of a made-up model.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from spotrun.search import (
    Categorical,
    Int,
    LogUniform,
    Parameter,
    Space,
    Uniform,
    Values,
    When,
)

DEARER = 20.0
"""The cost of a trial at the end of the first parameter, relative to its start."""
LEAST_USD = 0.10


@dataclass(frozen=True)
class Objective:
    """A function with a known minimum, and the cost of a trial."""

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
        return LEAST_USD * math.exp(math.log(DEARER) * domains[0].position(values["x0"]))

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
    """A made-up training: larger models are better, cost more, and need a lower learning rate."""
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
        larger = float((size(values) / 1e4) ** -0.3)
        return 2.0 * larger + 0.4 * off**2 + tuned + (float(values["dropout"]) - 0.1) ** 2

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
