"""A question to the process, and its answer, as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spotrun.search.algorithms import Bayesian, Sampler
from spotrun.search.proposal import Suggestion
from spotrun.search.space import (
    Categorical,
    Domain,
    Int,
    LogUniform,
    Parameter,
    Space,
    Uniform,
    When,
)
from spotrun.search.suggest import Question
from spotrun.search.trial import Direction, Outcome, Report, Trial

_DOMAINS: dict[str, type[Domain]] = {
    "uniform": Uniform,
    "logUniform": LogUniform,
    "int": Int,
    "categorical": Categorical,
}
_NAMES = {domain: name for name, domain in _DOMAINS.items()}


def write_question(question: Question) -> bytes:
    """Write a question; NaN and infinities are written as Python reads them."""
    content = {
        "space": [_written_parameter(one) for one in question.space.parameters],
        "algorithm": asdict(question.algorithm),
        "direction": question.direction,
        "number": question.number,
        "history": [_written_trial(trial) for trial in question.history],
        "budgetLeft": question.budget_left,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def read_question(body: bytes) -> Question:
    """Read a question of the operator."""
    content = json.loads(body)
    algorithm = content["algorithm"]
    return Question(
        space=Space(tuple(map(_parameter, content["space"]))),
        algorithm=Bayesian(**{**algorithm, "sampler": Sampler(algorithm["sampler"])}),
        direction=Direction(content["direction"]),
        number=content["number"],
        history=tuple(map(_trial, content["history"])),
        budget_left=content["budgetLeft"],
    )


def write_answer(answer: Suggestion | ValueError) -> bytes:
    """Write an answer; an error must have a message for users."""
    if isinstance(answer, ValueError):
        return json.dumps({"error": str(answer)}).encode()
    return json.dumps({"values": dict(answer.values), "why": answer.why}).encode()


def read_answer(body: bytes) -> Suggestion:
    """Read the process's answer; raises ValueError with its message for users."""
    content = json.loads(body)
    if "error" in content:
        raise ValueError(content["error"])
    values, why = content["values"], content["why"]
    if not isinstance(values, dict) or not isinstance(why, str):
        raise TypeError("an answer must have values by name, and a text")
    if not all(isinstance(value, str | int | float) for value in values.values()):
        raise TypeError("a value must be a text, a number, true or false")
    return Suggestion(values, why=why)


def _written_parameter(parameter: Parameter) -> dict[str, Any]:
    domain = parameter.domain
    return {
        "name": parameter.name,
        "domain": _NAMES[type(domain)],
        "range": asdict(domain),
        "when": [asdict(condition) for condition in parameter.when],
    }


def _parameter(content: Mapping[str, Any]) -> Parameter:
    bounds = content["range"]
    if "choices" in bounds:
        bounds = {"choices": tuple(bounds["choices"])}
    conditions = (When(one["parameter"], tuple(one["values"])) for one in content["when"])
    domain = _DOMAINS[content["domain"]](**bounds)
    return Parameter(content["name"], domain, tuple(conditions))


def _written_trial(trial: Trial) -> list[Any]:
    # A sampler needs only the newest report; a thousand trials may have hundreds of reports each.
    last = trial.reports[-1] if trial.reports else None
    return [
        trial.number,
        dict(trial.values),
        trial.outcome,
        trial.objective,
        [last.step, last.value] if last is not None else None,
        trial.cost_usd,
    ]


def _trial(content: list[Any]) -> Trial:
    number, values, outcome, objective, last, cost_usd = content
    reports = () if last is None else (Report(*last),)
    return Trial(number, values, Outcome(outcome), objective, reports, cost_usd)
