import math

import pytest

from spotrun.search import Categorical, LogUniform, Outcome, Parameter, Trial, Uniform, Values
from spotrun.search.process.cost_model import LEAST_TRIALS, CostModel

DEPTH = Parameter("depth", LogUniform(1.0, 100.0))
KIND = Parameter("kind", Categorical(("small", "large")))
NOISE = Parameter("noise", Uniform(0.0, 1.0))
PARAMETERS = (DEPTH, KIND, NOISE)


def values(depth: float, kind: str, noise: float = 0.5) -> Values:
    return {"depth": depth, "kind": kind, "noise": noise}


def usd(some: Values) -> float:
    return 0.1 * float(some["depth"]) * (3.0 if some["kind"] == "large" else 1.0)


def trials(count: int) -> list[Trial]:
    kinds = ("small", "large")
    tried = [values(100 ** (n / count), kinds[n % 2], n * 7 % count / count) for n in range(count)]
    return [Trial(n, one, Outcome.COMPLETE, 1.0, cost_usd=usd(one)) for n, one in enumerate(tried)]


def test_a_product_of_effects_is_learned() -> None:
    model = CostModel(PARAMETERS, trials(24))
    asked = [values(5, "small"), values(50, "small"), values(5, "large"), values(50, "large", 0.0)]
    for one, found in zip(asked, model.log_costs(asked), strict=True):
        assert math.exp(found) == pytest.approx(usd(one), rel=0.15)


def test_predictions_stay_within_what_was_seen() -> None:
    model = CostModel(PARAMETERS, trials(24))
    seen = [usd(one.values) for one in trials(24)]
    lowest, highest = model.log_costs([values(1.0, "small"), values(100.0, "large")])
    assert math.log(min(seen)) <= lowest
    assert highest <= math.log(max(seen))


def test_before_enough_is_known_all_trials_cost_the_same() -> None:
    few = trials(LEAST_TRIALS - 1)
    unknown = [Trial(9, one.values, Outcome.FAILED, cost_usd=9.0) for one in trials(24)]
    found = CostModel(PARAMETERS, [*few, *unknown]).log_costs([values(1, "small")])
    assert found.tolist() == [0.0]
