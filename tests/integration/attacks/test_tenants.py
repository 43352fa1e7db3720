"""Tenants who want more than they were given, each with a token of their own.

What the guard refuses in a template is tried rule by rule in tests/integration/manifests; here are
the ways around it.
"""

from typing import Any

import pytest

from tests.integration.asking import Answer
from tests.integration.attacks.helpers import JOBS, Tenant
from tests.support.api.manifest_cases import CONTAINERS, TEMPLATE, changed
from tests.support.api.manifest_cases import job as a_job

MINE = "mine"
NO_PODS = "you may not create pods"


def refused(answer: Answer, words: str) -> bool:
    """Whether it was refused in words that say why."""
    assert answer.status in {401, 403, 422, 400}, answer.body
    assert words in answer.message, answer.message
    return True


def forbidden(answer: Answer, what: str) -> bool:
    return answer.status == 403 and refused(answer, f"cannot {what}")


# who may write TrainingJobs, and nothing else ----------------------------------------------------


def test_a_tenant_has_the_operator_make_a_pod(tenant: Tenant) -> None:
    """refused: a user who may not create pods may not have the operator create them"""
    assert refused(tenant.try_to("POST", tenant.jobs(), a_job()), NO_PODS)


def test_a_tenant_makes_a_pod_that_looks_like_a_worker(tenant: Tenant) -> None:
    """refused by RBAC"""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-abcde-0", "labels": {"spotrun.dev/job": "job"}},
        "spec": {"containers": [{"name": "trainer", "image": "i"}]},
    }
    path = f"api/v1/namespaces/{tenant.namespace}/pods"
    assert forbidden(tenant.try_to("POST", path, pod), "create resource")


def test_a_tenant_has_the_job_of_somebody_else_run_another_program(
    tenant: Tenant, made: str
) -> None:
    """refused: the guard judges a template again when it changes"""
    containers = [{"name": "trainer", "image": "i", "args": ["steal.py"]}]
    patch = {"spec": {"workers": {"template": {"spec": {"containers": containers}}}}}
    assert refused(
        tenant.try_to("PATCH", tenant.jobs(made), patch, kind="merge-patch+json"), NO_PODS
    )


def test_a_tenant_changes_a_template_by_server_side_apply(tenant: Tenant, made: str) -> None:
    """refused: the guard judges a change whichever way it is written"""
    body = a_job({"suspend": True, f"{CONTAINERS}.0.image": "other"})
    query = "fieldManager=tenant&force=true"
    path = tenant.jobs(made, query)
    assert refused(tenant.try_to("PATCH", path, body, kind="apply-patch+yaml"), NO_PODS)


def test_a_tenant_changes_a_template_by_json_patch(tenant: Tenant, made: str) -> None:
    """refused: the guard judges a change whichever way it is written"""
    patch: Any = [
        {"op": "add", "path": "/spec/workers/template/spec/hostNetwork", "value": True},
    ]
    path = tenant.jobs(made)
    assert refused(tenant.try_to("PATCH", path, patch, kind="json-patch+json"), NO_PODS)


def test_a_tenant_redirects_the_checkpoints_of_somebody_else(tenant: Tenant, made: str) -> None:
    """refused: the guard also judges the place of checkpoints when it changes"""
    patch = {"spec": {"checkpoint": {"uri": "s3://thief/loot"}}}
    path = tenant.jobs(made)
    assert refused(tenant.try_to("PATCH", path, patch, kind="merge-patch+json"), NO_PODS)


def test_a_tenant_writes_into_the_status_of_a_job(tenant: Tenant, made: str) -> None:
    """refused by RBAC: only the operator may write it, so nobody else can misdirect a world"""
    path = f"{JOBS}/namespaces/{tenant.namespace}/trainingjobs/{made}/status"
    patch = {"status": {"world": {"store": "198.51.100.1:1"}, "phase": "Running"}}
    answer = tenant.try_to("PATCH", path, patch, kind="merge-patch+json")
    assert forbidden(answer, "patch resource")


def test_a_tenant_sends_a_status_with_the_spec(tenant: Tenant, made: str) -> None:
    """harmless: the API server drops it"""
    patch = {"status": {"phase": "Succeeded"}}
    answer = tenant.try_to("PATCH", tenant.jobs(made), patch, kind="merge-patch+json")
    assert answer.accepted
    assert "status" not in answer.body


def test_a_tenant_asks_for_a_token_of_an_account(tenant: Tenant) -> None:
    """refused by RBAC"""
    path = f"api/v1/namespaces/{tenant.namespace}/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    assert forbidden(tenant.try_to("POST", path, body), "create resource")


def test_a_tenant_impersonates_the_operator(tenant: Tenant) -> None:
    """refused by RBAC: impersonation needs a right of its own"""
    operator = "system:serviceaccount:spotrun-system:spotrun"
    answer = tenant.try_to("GET", "api/v1/nodes", Impersonate_User=operator)
    assert forbidden(answer, "impersonate")


def test_a_tenant_reads_the_key_of_all_worlds(tenant: Tenant) -> None:
    """refused by RBAC: the key is in the operator's own namespace"""
    path = "api/v1/namespaces/spotrun-system/secrets/spotrun-agents"
    assert forbidden(tenant.try_to("GET", path), "get resource")


def test_a_tenant_takes_the_lease_of_the_operator(tenant: Tenant) -> None:
    """refused by RBAC: otherwise a stranger would become the leader"""
    path = "apis/coordination.k8s.io/v1/namespaces/spotrun-system/leases/spotrun"
    patch = {"spec": {"holderIdentity": "198.51.100.1:1/x"}}
    answer = tenant.try_to("PATCH", path, patch, kind="merge-patch+json")
    assert forbidden(answer, "patch resource")


def test_a_tenant_declares_a_pool_that_costs_nothing(tenant: Tenant) -> None:
    """refused by RBAC: only admins may write pools"""
    pool = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": "free"},
        "spec": {"capacity": "Spot", "instanceTypes": ["p5.48xlarge"], "usdPerHour": "0.01"},
    }
    assert forbidden(tenant.try_to("POST", f"{JOBS}/capacitypools", pool), "create resource")


def test_a_tenant_writes_a_price_on_a_node(tenant: Tenant) -> None:
    """refused by RBAC: only admins may write nodes"""
    patch = {"metadata": {"annotations": {"spotrun.dev/usd-per-hour": "0"}}}
    answer = tenant.try_to("PATCH", "api/v1/nodes/a", patch, kind="merge-patch+json")
    assert forbidden(answer, "patch resource")


# who may make pods, too --------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "on a path of the node": (
        {"checkpoint": {"volume": {"hostPath": {"path": "/etc"}}}},
        "hostPath",
    ),
    "on a claim of another namespace": (
        {"checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "other/data"}}}},
        "must be lower-case letters",
    ),
    "on a claim by a path": (
        {"checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "../other/data"}}}},
        "must be lower-case letters",
    ),
    "with a secret of another namespace": (
        {
            "checkpoint": {
                "volume": {
                    "csi": {"driver": "d", "nodePublishSecretRef": {"name": "other/storage"}}
                }
            }
        },
        "must be lower-case letters",
    ),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_an_editor_keeps_checkpoints_where_they_should_not_be(
    editor: Tenant, changes: dict[str, Any], words: str
) -> None:
    """refused by the schema"""
    assert refused(editor.try_to("POST", editor.jobs(), a_job(changes)), words)


@pytest.mark.parametrize(
    "account",
    ["spotrun", "system:serviceaccount:spotrun-system:spotrun", "spotrun-system/spotrun"],
)
def test_an_editor_trains_with_the_account_of_the_operator(editor: Tenant, account: str) -> None:
    """refused: the editor has no right to use it, however its name is spelled"""
    body = a_job({f"{TEMPLATE}.spec.serviceAccountName": account})
    assert refused(
        editor.try_to("POST", editor.jobs(), body), f"you may not use the service account {account}"
    )


def test_an_editor_makes_a_good_job_and_changes_it_into_a_bad_one(editor: Tenant) -> None:
    """refused: the guard judges the job again, suspended or not"""
    good = changed(a_job({"suspend": True}), {"/metadata.name": MINE})
    assert editor.try_to("POST", editor.jobs(), good).accepted
    patch = {"spec": {"workers": {"template": {"spec": {"hostPID": True}}}}}
    answer = editor.try_to("PATCH", editor.jobs(MINE), patch, kind="merge-patch+json")
    assert refused(answer, "hostPID is not allowed")


METADATA: dict[str, tuple[dict[str, Any], str]] = {
    "labels of the operator's": (
        {"labels": {"spotrun.dev/job-uid": "x"}},
        "belong to the operator",
    ),
    "a price": ({"annotations": {"spotrun.dev/usd-per-hour": "0"}}, "belong to the operator"),
    "other pools": ({"annotations": {"spotrun.dev/pools": "theirs"}}, "belong to the operator"),
    "a finalizer": ({"finalizers": ["example.com/stays"]}, 'unknown field "spec.workers.template'),
    "an owner": (
        {"ownerReferences": [{"uid": "x", "controller": True}]},
        'unknown field "spec.workers.template',
    ),
    "another namespace": ({"namespace": "kube-system"}, 'unknown field "spec.workers.template'),
}


@pytest.mark.parametrize(("metadata", "words"), METADATA.values(), ids=METADATA)
def test_an_editor_gives_workers_metadata_that_users_may_not_set(
    editor: Tenant, metadata: dict[str, Any], words: str
) -> None:
    """refused by the schema"""
    body = a_job({f"{TEMPLATE}.metadata": metadata})
    assert refused(editor.try_to("POST", editor.jobs(), body), words)


def test_an_editor_runs_another_program_in_the_place_of_torchrun(editor: Tenant) -> None:
    """refused by the schema"""
    body = a_job({f"{CONTAINERS}.0.command": ["sh", "-c", "id"]})
    assert refused(editor.try_to("POST", editor.jobs(), body), "takes no command")


def test_an_editor_asks_for_two_billion_workers(editor: Tenant) -> None:
    """refused by the schema, also through the subresource scale"""
    body = a_job({"workers.min": 2**31 - 1, "workers.max": 2**31 - 1})
    assert refused(editor.try_to("POST", editor.jobs(), body), "less than or equal to 10000")
    scaled = changed(a_job({"suspend": True}), {"/metadata.name": "scaled"})
    assert editor.try_to("POST", editor.jobs(), scaled).accepted
    path = f"{JOBS}/namespaces/{editor.namespace}/trainingjobs/scaled/scale"
    patch = {"spec": {"replicas": 2**31 - 1}}
    answer = editor.try_to("PATCH", path, patch, kind="merge-patch+json")
    assert refused(answer, "less than or equal to 10000")


NAMES = {
    "a path": "../../default",
    "a label of a metric": 'x",phase="Running"} 1\nspotrun_leader{x="',
    "too long": "a" * 51,
    "with dots": "a.b",
    "a line break": "a\nb",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_job_has_a_name_that_would_do_harm_elsewhere(editor: Tenant, name: str) -> None:
    """refused: names are short and have only plain characters"""
    body = changed(a_job(), {"/metadata.name": name})
    answer = editor.try_to("POST", editor.jobs(), body)
    assert refused(answer, "metadata.name")


@pytest.mark.parametrize("key", ["team", "cost-center", "project"])
def test_a_job_has_a_label_whose_value_would_forge_a_metric(editor: Tenant, key: str) -> None:
    """refused by the API server: values of labels are short and have only plain characters"""
    body = changed(a_job(), {"/metadata.labels": {key: 'x"} 1\nspotrun_leader 1'}})
    assert refused(editor.try_to("POST", editor.jobs(), body), "metadata.labels")
