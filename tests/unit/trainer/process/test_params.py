import copy
import json
import pickle
from typing import Any

import pytest

from spotrun_trainer import params
from spotrun_trainer.process.params import ENV


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"lr": 0.001, "layers": 2, "optimizer": "adam", "warm": True, "dropout": 0}
    monkeypatch.setenv(ENV, json.dumps(values))


@pytest.mark.usefixtures("trial")
def test_a_trial_has_the_values_of_its_search() -> None:
    found = params(lr=0.1, layers=4, beta=0.9)
    assert (found.lr, found["layers"], found.optimizer) == (0.001, 2, "adam")
    assert found.warm is True
    assert found.beta == 0.9  # of trials that do not have it, the default
    assert len(found) == 6


@pytest.mark.usefixtures("trial")
def test_a_whole_number_is_a_float_where_the_default_is_one() -> None:
    assert type(params(dropout=0.5).dropout) is float


def test_elsewhere_the_defaults_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV, raising=False)
    assert dict(params({"lr": 0.1}, layers=2)) == {"lr": 0.1, "layers": 2}


@pytest.mark.parametrize(
    ("text", "defaults", "words"),
    [
        ("", {}, "this training has no parameters: SPOTRUN_PARAMS is not set"),
        ("{", {"lr": 0.1}, "SPOTRUN_PARAMS is not JSON"),
        ("[1]", {"lr": 0.1}, "SPOTRUN_PARAMS must be a JSON object"),
        ('{"lr": [1]}', {}, "SPOTRUN_PARAMS must be a JSON object of numbers"),
        ('{"layers": 2.5}', {"layers": 2}, "layers is 2.5 in this trial, but its default 2 is of"),
        ('{"layers": true}', {"layers": 2}, "of type int: give both the same type"),
        ('{"lr": "0.1"}', {"lr": 0.5}, "of type float: give both the same type"),
    ],
)
def test_what_is_wrong_is_said(
    text: str, defaults: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV, text)
    with pytest.raises(ValueError, match=words):
        params(defaults)


@pytest.mark.usefixtures("trial")
def test_a_parameter_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"no parameter 'momentum'.*'lr', 'layers'"):
        params()["momentum"]
    with pytest.raises(AttributeError, match="give params\\(\\) a default"):
        _ = params().momentum


@pytest.mark.usefixtures("trial")
def test_parameters_can_be_sent_to_other_processes() -> None:
    assert dict(pickle.loads(pickle.dumps(params()))) == dict(copy.copy(params()))  # noqa: S301
