"""Each rule of the admission policy refuses what it is for, and nothing else does."""

import json

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.conftest import WHOLE, Guard, weakened
from tests.integration.manifests.guard_cases import (
    ACCEPTED,
    AUTHOR,
    REFUSED,
    Accepted,
    Refused,
    pod,
)
from tests.integration.manifests.helpers import OPERATOR, Server, apply, shipped
from tests.support.api.manifest_cases import TRAINER
from tests.support.api.search_cases import search

every_refusal = pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)


@every_refusal
def test_bad_jobs_are_refused(server: Server, guard: Guard, case: Refused) -> None:
    answer = server.try_to_create(case.user, WHOLE, case.job)
    assert not answer.accepted
    assert case.says in answer.message


@every_refusal
def test_only_the_rule_in_question_refuses(server: Server, guard: Guard, case: Refused) -> None:
    answer = server.try_to_create(case.user, weakened(guard.index(case)), case.job)
    assert answer.accepted, answer.message


@every_refusal
def test_templates_of_trials_are_judged_alike(server: Server, guard: Guard, case: Refused) -> None:
    body = search({"template": {"spec": case.job["spec"]}})
    answer = server.try_to_create(case.user, WHOLE, body)
    assert not answer.accepted
    assert case.says in answer.message


@pytest.mark.usefixtures("rbac")
def test_the_job_of_a_trial_is_judged_by_who_wrote_its_search(server: Server, guard: Guard) -> None:
    """The operator makes it, and may not use the account itself."""
    answer = server.try_to_create(OPERATOR, WHOLE, pod(serviceAccountName="trains"))
    assert answer.accepted, answer.message


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_good_jobs_are_accepted(server: Server, guard: Guard, case: Accepted) -> None:
    answer = server.try_to_create(case.user, WHOLE, case.job)
    assert answer.accepted, answer.message


@pytest.mark.parametrize(("new", "runs_as"), [("default", "default"), ("", "trains")])
def test_pods_take_the_old_name_of_the_account_where_the_new_one_is_empty(
    cluster: Cluster, guard: Guard, new: str, runs_as: str
) -> None:
    """Kubernetes' own rule, on which the guard's reading of the template rests."""
    account = {"metadata": {"name": "trains", "namespace": WHOLE}}
    apply(cluster, {"apiVersion": "v1", "kind": "ServiceAccount", **account})
    spec = {"serviceAccountName": new, "serviceAccount": "trains", "containers": [TRAINER]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    ask = ("-n", WHOLE, "create", "--dry-run=server", "-f", "-", "-o")
    said = cluster.kubectl(*ask, "jsonpath={.spec.serviceAccountName}", input=json.dumps(body))
    assert said.stdout == runs_as


def test_every_rule_has_a_case() -> None:
    policy, _ = shipped("admission.yaml")
    guard = Guard(policy["spec"])
    rules = range(len(policy["spec"]["validations"]))
    assert {guard.index(case) for case in REFUSED} == set(rules)


ODD: dict[str, tuple[str, object]] = {
    "text for a list": ("volumes", "text"),
    "numbers in a list": ("tolerations", [1]),
    "an object for a list": ("initContainers", {"a": 1}),
    "a number for a name": ("priorityClassName", {"a": 1}),
    "an object for a name": ("serviceAccountName", {"a": 1}),
    "a megabyte of a list": ("tolerations", [{"key": "a"}] * 100_000),
}


@pytest.mark.parametrize(("field", "value"), ODD.values(), ids=ODD.keys())
def test_what_cannot_be_judged_is_refused(
    server: Server, guard: Guard, field: str, value: object
) -> None:
    answer = server.try_to_create(AUTHOR, WHOLE, pod(**{field: value}))
    assert not answer.accepted
    assert f"'{WHOLE}'" in answer.message


def test_the_guard_stands_in_every_namespace() -> None:
    policy, binding = shipped("admission.yaml")
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
