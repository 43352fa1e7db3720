"""The expected cost of a trial with given values, learned from the trials that have ended."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotrun.search.space import Categorical, Parameter, Values
from spotrun.search.trial import Outcome, Trial

LEAST_TRIALS = 4
"""The least number of complete trials with a cost. With fewer, all costs count as equal."""
_PRIOR = 0.3
"""The weight, in trials, of the assumption that a parameter does not change the cost."""

Floats = NDArray[np.float64]


class CostModel:
    """Ridge regression of the logarithm of the cost on the parameters, each linear and squared.

    A cost is a product of the effects of some parameters, such as depth times width; its logarithm
    is a sum. Predictions stay within the range of the costs that were seen.
    """

    def __init__(self, parameters: Sequence[Parameter], trials: Sequence[Trial]) -> None:
        self._parameters = parameters
        self._weights: Floats | None = None
        known = [
            (trial.values, trial.cost_usd)
            for trial in trials
            if trial.outcome is Outcome.COMPLETE
            and trial.cost_usd
            and all(parameter.name in trial.values for parameter in parameters)
        ]
        if len(known) < LEAST_TRIALS or not parameters:
            return
        logs = np.log(np.array([cost for _, cost in known]))
        self._mean, self._bounds = float(logs.mean()), (float(logs.min()), float(logs.max()))
        inputs = self._inputs([values for values, _ in known])
        penalty = _PRIOR * np.eye(inputs.shape[1])
        penalty[0, 0] = 0.0  # no penalty on the mean
        moments = inputs.T @ (logs - self._mean)
        self._weights = np.linalg.solve(inputs.T @ inputs + penalty, moments)

    def log_costs(self, candidates: Sequence[Values]) -> Floats:
        """Return the logarithms of the expected costs; all 0 with too few complete trials."""
        if self._weights is None:
            return np.zeros(len(candidates))
        return np.clip(self._inputs(candidates) @ self._weights + self._mean, *self._bounds)

    def _inputs(self, candidates: Sequence[Values]) -> Floats:
        columns = [np.ones(len(candidates))]
        for parameter in self._parameters:
            columns += _inputs_of(parameter, [values[parameter.name] for values in candidates])
        return np.column_stack(columns)


def _inputs_of(parameter: Parameter, values: Sequence[object]) -> list[Floats]:
    domain = parameter.domain
    if isinstance(domain, Categorical):
        indices = np.array([domain.index(value) for value in values])  # type: ignore[arg-type]
        return [(indices == choice) * 1.0 for choice in range(domain.count)]
    position = np.array([2 * domain.position(value) - 1 for value in values])  # type: ignore[arg-type]
    return [position, position**2]
