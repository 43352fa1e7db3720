"""Optuna's TPE, with its candidates ranked by expected improvement per expected dollar."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.samplers import TPESampler
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
from typing_extensions import override

from spotrun.search.process.cost_model import CostModel
from spotrun.search.space import Categorical, Parameter, Value
from spotrun.search.suggest import Question

_CANDIDATES = 96
"""Four times Optuna's number: among more candidates of similar promise there is a cheaper one."""


class TpePerDollar(TPESampler):
    """Draws candidates near good trials, as TPE does, and takes the best ratio of promise to cost.

    The promise is TPE's own: the ratio l/g of the densities of good and bad trials, which orders
    candidates in the same way as the expected improvement. It is divided by the expected cost to
    the power of the share of the budget that is left (cost cooling, Lee et al. 2020), because at
    the end the value of the best trial counts, not its cost. The expected improvement itself did
    worse: it is bounded by one over the share of good trials (Bergstra et al. 2011). If costs
    differ by more than that bound, it tries cheap candidates whatever their promise.
    """

    def __init__(self, question: Question, seed: int) -> None:
        super().__init__(n_startup_trials=0, n_ei_candidates=_CANDIDATES, seed=seed)
        self._question = question

    @override
    def _compute_acquisition_func(
        self,
        samples: dict[str, NDArray[Any]],
        mpe_below: _ParzenEstimator,
        mpe_above: _ParzenEstimator,
    ) -> NDArray[np.float64]:
        promise = super()._compute_acquisition_func(samples, mpe_below, mpe_above)
        scored: NDArray[np.float64] = promise - self._question.budget_left * self._log_costs(
            samples
        )
        return scored

    def _log_costs(self, samples: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
        parameters = [one for one in self._question.space.parameters if one.name in samples]
        columns = [[_value(one, number) for number in samples[one.name]] for one in parameters]
        names = [one.name for one in parameters]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return CostModel(parameters, self._question.history).log_costs(rows)


def _value(parameter: Parameter, number: float) -> Value:
    """Return the value for Optuna's number: the number itself, or the choice at that index."""
    domain = parameter.domain
    return domain.choices[int(number)] if isinstance(domain, Categorical) else number
