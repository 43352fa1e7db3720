import json

import pytest

from spotrun.act.manifests.trial_job import trial_job
from spotrun.api import load
from spotrun.api.field_types.bounded import DnsName
from spotrun.api.spec.begin_from import BeginFrom
from spotrun.policies.tuning.steps import CreateTrial
from tests.support.tuning.searches import SearchBuilder, a_population, a_search, usd

CONTAINER = {"name": "trainer", "image": "x", "args": ["train.py", "--lr=$(params.lr)"]}
WORKERS = {"min": 1, "max": 2, "template": {"spec": {"containers": [CONTAINER]}}}


def a_template(**template: object) -> SearchBuilder:
    return a_search(template=template)


def test_the_job_of_a_trial_has_its_values_its_part_of_the_budget_and_its_owner() -> None:
    budget = {"maxUsdPerHour": "3", "onExceeded": "Warn", "unpriced": "Allow"}
    spec = {"workers": WORKERS, "budget": budget, "priority": 7}
    search = a_template(spec=spec, metadata={"labels": {"team": "vision"}}).snapshot()
    made = trial_job(search, CreateTrial(3, {"lr": 0.5, "kind": "$adam"}, usd("1.5")))
    params = json.dumps({"lr": 0.5, "kind": "$adam"}, separators=(",", ":")).replace("$", "$$")
    container = {
        "name": "trainer",
        "image": "x",
        "args": ["train.py", "--lr=0.5"],
        "env": [{"name": "SPOTRUN_PARAMS", "value": params}],
    }
    assert made == {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "search-3",
            "namespace": "ml",
            "labels": {
                "team": "vision",
                "app.kubernetes.io/managed-by": "spotrun",
                "spotrun.dev/tuning-job": "search",
                "spotrun.dev/trial": "3",
            },
            "annotations": {"spotrun.dev/checkpoint-folder": "search-3-bp7jg"},
            "ownerReferences": [
                {
                    "apiVersion": "spotrun.dev/v1alpha1",
                    "kind": "TuningJob",
                    "name": "search",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "workers": {**WORKERS, "template": {"spec": {"containers": [container]}}},
            "budget": {**budget, "maxCostUsd": "1.5", "onExceeded": "Fail"},
            "priority": 7,
        },
    }
    load({**made, "metadata": {"name": "search-3"}})


def test_without_a_limit_the_templates_own_budget_counts() -> None:
    own = {"maxCostUsd": "2", "onExceeded": "Fail"}
    search = a_template(spec={"workers": WORKERS, "budget": own}).snapshot()
    assert trial_job(search, CreateTrial(0, {"lr": 0.5}, None))["spec"]["budget"] == own


def test_a_placeholder_that_names_no_parameter_is_told() -> None:
    search = a_template(spec={"workers": WORKERS}).snapshot()
    with pytest.raises(ValueError, match=r"\$\(params.lr\) names no parameter of this trial"):
        trial_job(search, CreateTrial(0, {"layers": 3}, None))


def test_the_stages_of_a_trial_have_its_values() -> None:
    stages = [
        {"name": "a", "args": ["--lr=$(params.lr)", "$$x"], "untilStep": 9},
        {"name": "b", "params": {"rate": "$(params.lr)", "lr": "1e-5"}},
    ]
    place = {"uri": "s3://bucket/place"}
    search = a_template(spec={"workers": WORKERS, "stages": stages, "checkpoint": place}).snapshot()
    made = trial_job(search, CreateTrial(3, {"lr": 0.5}, None))
    assert made["spec"]["stages"] == [
        {"name": "a", "args": ["--lr=0.5", "$x"], "untilStep": 9},
        {"name": "b", "params": {"rate": "0.5", "lr": "1e-5"}},
    ]
    load({**made, "metadata": {"name": "search-3"}})


def test_a_member_of_a_population_begins_from_a_checkpoint_and_ends_with_its_round() -> None:
    search = a_population().snapshot()
    parent = BeginFrom(job=DnsName("search-1"), checkpoint="step-100.g2")
    made = trial_job(search, CreateTrial(3, {"lr": 0.5}, None, parent, until_step=200))
    assert made["spec"]["checkpoint"] == {
        "uri": "s3://bucket",
        "beginFrom": {"job": "search-1", "checkpoint": "step-100.g2"},
    }
    env = made["spec"]["workers"]["template"]["spec"]["containers"][0]["env"]
    assert env[-1] == {"name": "SPOTRUN_UNTIL_STEP", "value": "200"}
    load({**made, "metadata": {"name": "search-3"}})
