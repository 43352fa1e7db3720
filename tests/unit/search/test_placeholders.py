import json

import pytest

from spotrun.api.names import ENV_PARAMS
from spotrun.search import Value, placeholders, replace_params, with_params

VALUES: dict[str, Value] = {"lr": 1e-5, "layers": 2, "optimizer": "adam", "warm": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--lr=$(params.lr)", "--lr=1e-05"),
        ("$(params.layers)/$(params.optimizer)/$(params.warm)", "2/adam/true"),
        ("$$(params.lr)", "$$(params.lr)"),  # the kubelet makes $(params.lr) of it
        ("$$$(params.lr)", "$$1e-05"),
        ("$(HOME) $(params $(paramslr)", "$(HOME) $(params $(paramslr)"),
    ],
)
def test_placeholders_are_replaced(text: str, expected: str) -> None:
    assert replace_params(text, VALUES) == expected


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"params\.momentum\) names no parameter.*lr, optimizer"):
        replace_params("$(params.momentum)", VALUES)


def test_the_kubelet_expands_nothing_in_a_value() -> None:
    assert replace_params("$(params.a)", {"a": "$(HOME) $5"}) == "$$(HOME) $$5"


def test_the_names_that_a_text_asks_for_are_found() -> None:
    assert placeholders("$(params.a) $$(params.b) $(params.c)$(d)") == {"a", "c"}


def test_each_container_gets_the_values() -> None:
    env = [
        {"name": "LR", "value": "$(params.lr)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": ENV_PARAMS, "value": "{}"},
    ]
    trainer = {"name": "trainer", "command": ["python"], "args": ["$(params.layers)"], "env": env}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [trainer, {"name": "side"}], "nodeSelector": {"c": "d"}},
    }
    told = {"name": ENV_PARAMS, "value": json.dumps(VALUES, separators=(",", ":"))}
    expected = {
        "name": "trainer",
        "command": ["python"],
        "args": ["2"],
        "env": [{"name": "LR", "value": "1e-05"}, env[1], told],
    }
    assert with_params(template, VALUES, variable=ENV_PARAMS) == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [expected, {"name": "side", "env": [told]}],
            "nodeSelector": {"c": "d"},
        },
    }


def test_what_is_no_text_stays_for_the_api_server_to_refuse() -> None:
    env = [{"name": "STEPS", "value": 3}, {"name": "LR", "value": "$(params.lr)"}]
    container = {"name": "t", "args": ["a", 5], "env": env}
    made = with_params({"spec": {"initContainers": [container]}}, VALUES, variable=ENV_PARAMS)
    [changed] = made["spec"]["initContainers"]
    assert changed["args"] == ["a", 5]
    assert [one["value"] for one in changed["env"][:2]] == [3, "1e-05"]
