"""The operator's rights are those that docs/security.md lists, and no others."""

import re
from typing import Any

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.helpers import (
    FOLDER,
    OPERATOR,
    Server,
    apply,
    namespace,
    only,
    shipped,
    until,
)
from tests.support.api.manifest_cases import job

ROLES = ("rbac.yaml", "rbac-namespaced.yaml", "rbac-users.yaml")
DOCUMENT = (FOLDER.parent / "docs/security.md").read_text()
SYSTEM = "spotrun-system"
GROUPS = {
    "trainingjobs": "spotrun.dev",
    "capacitypools": "spotrun.dev",
    "tuningjobs": "spotrun.dev",
    "spendlimits": "spotrun.dev",
    "poddisruptionbudgets": "policy",
    "networkpolicies": "networking.k8s.io",
    "events": "events.k8s.io",
    "tokenreviews": "authentication.k8s.io",
    "leases": "coordination.k8s.io",
    "resourceclaims": "resource.k8s.io",
    "resourceclaimtemplates": "resource.k8s.io",
}
"""The API groups of what is not in the core group."""

Right = tuple[str, str, str, str]
"""Group, resource, verb and name; no name for all of them."""


def rights(role: dict[str, Any]) -> list[Right]:
    """Every single right of a role."""
    return [
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


def documented(title: str) -> list[Right]:
    """The rights in the first table after some words of the document."""
    table = DOCUMENT.split(title)[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:3]] for row in table.splitlines()]
    found = []
    for what, verbs in rows:
        named, *names = re.findall(r"`([^`]+)`", what)
        resource, _, given = named.partition(".")  # the group follows where there are two of a name
        group = given or GROUPS.get(resource.partition("/")[0], "")
        found += [(group, resource, v, n) for v in verbs.split(", ") for n in names or [""]]
    return found


EVERYWHERE = documented("This is all of it")
OF_NODES = documented("where Kubernetes keeps the events of nodes")
AT_HOME = documented("And in its own namespace")


def attributes(right: Right) -> dict[str, str]:
    group, resource, _, name = right
    main, _, sub = resource.partition("/")
    return {"group": group, "resource": main, "subresource": sub, "name": name}


def test_the_cluster_wide_rights_are_the_documented_ones() -> None:
    roles = shipped("rbac.yaml")
    assert rights(only(roles, "ClusterRole", "spotrun")) == EVERYWHERE
    assert rights(only(roles, "Role", "spotrun")) == AT_HOME


def test_the_namespaced_rights_are_the_same_ones() -> None:
    roles = shipped("rbac-namespaced.yaml")
    here, of_nodes, home = (r for r in roles if r["kind"] == "Role")
    places = tuple(role["metadata"]["namespace"] for role in (here, of_nodes, home))
    assert places == ("ml", "default", SYSTEM)
    assert rights(here) + rights(only(roles, "ClusterRole", "spotrun-cluster")) == EVERYWHERE
    assert rights(of_nodes) == OF_NODES
    assert rights(home) == AT_HOME


@pytest.mark.parametrize("file", ROLES)
def test_no_rule_has_a_wildcard_or_a_way_up(file: str) -> None:
    roles = [d for d in shipped(file) if d["kind"] in {"Role", "ClusterRole"}]
    words = {word for role in roles for right in rights(role) for word in right}
    ladders = {"escalate", "bind", "impersonate", "use", "pods/exec", "pods/attach", "nodes/proxy"}
    assert not any("*" in word for word in words)
    assert words.isdisjoint(ladders)
    assert not any(rule.get("nonResourceURLs") for role in roles for rule in role["rules"])


@pytest.mark.usefixtures("rbac")
def test_the_operator_may_do_all_of_that(server: Server) -> None:
    refused = [r for r in EVERYWHERE if not server.may(OPERATOR, r[2], **at(r, "default"))]
    refused += [r for r in AT_HOME if not server.may(OPERATOR, r[2], **at(r, SYSTEM))]
    assert refused == []


def at(right: Right, where: str) -> dict[str, str]:
    return {**attributes(right), "namespace": where}


MUST_NOT = {
    "read secrets of tenants": ("get", "", "secrets", "default"),
    "list secrets of tenants": ("list", "", "secrets", "default"),
    "list secrets at home": ("list", "", "secrets", SYSTEM),
    "read another secret at home": ("get", "", "secrets", SYSTEM),
    "make secrets of tenants": ("create", "", "secrets", "default"),
    "delete its secret": ("delete", "", "secrets/spotrun-agents", SYSTEM),
    "take a lease of others": ("patch", "coordination.k8s.io", "leases", "kube-system"),
    "take another lease at home": ("patch", "coordination.k8s.io", "leases", SYSTEM),
    "make leases of nodes": ("create", "coordination.k8s.io", "leases", "kube-node-lease"),
    "run commands in pods": ("create", "", "pods/exec", "default"),
    "run commands over GET": ("get", "", "pods/exec", "default"),
    "attach to pods": ("create", "", "pods/attach", "default"),
    "forward ports": ("create", "", "pods/portforward", "default"),
    "read logs": ("get", "", "pods/log", "default"),
    "evict": ("create", "", "pods/eviction", "default"),
    "change containers of pods": ("patch", "", "pods/ephemeralcontainers", "default"),
    "write the status of pods": ("patch", "", "pods/status", "default"),
    "delete pods in bulk": ("deletecollection", "", "pods", "default"),
    "delete jobs in bulk": ("deletecollection", "spotrun.dev", "trainingjobs", "default"),
    "replace jobs": ("update", "spotrun.dev", "trainingjobs", "default"),
    "make searches": ("create", "spotrun.dev", "tuningjobs", "default"),
    "change searches": ("patch", "spotrun.dev", "tuningjobs", "default"),
    "delete pools in bulk": ("deletecollection", "spotrun.dev", "capacitypools", ""),
    "change events of others": ("patch", "events.k8s.io", "events", "kube-system"),
    "delete events of others": ("delete", "events.k8s.io", "events", "kube-system"),
    "change nodes": ("patch", "", "nodes", ""),
    "reach kubelets": ("get", "", "nodes/proxy", ""),
    "change namespaces": ("patch", "", "namespaces", "default"),
    "list claims": ("list", "", "persistentvolumeclaims", "default"),
    "change claims": ("patch", "", "persistentvolumeclaims", "default"),
    "list claims for devices": ("list", "resource.k8s.io", "resourceclaims", "default"),
    "make claims for devices": ("create", "resource.k8s.io", "resourceclaims", "default"),
    "read config maps": ("get", "", "configmaps", "default"),
    "read accounts": ("get", "", "serviceaccounts", "default"),
    "make tokens": ("create", "", "serviceaccounts/token", "default"),
    "be somebody else": ("impersonate", "", "users", ""),
    "be another account": ("impersonate", "", "serviceaccounts", "default"),
    "write roles": ("create", "rbac.authorization.k8s.io", "clusterroles", ""),
    "bind roles": ("bind", "rbac.authorization.k8s.io", "clusterroles", ""),
    "escalate": ("escalate", "rbac.authorization.k8s.io", "clusterroles", ""),
    "read CRDs": ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    "change its guard": (
        "patch",
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "",
    ),
    "everything": ("*", "*", "*", ""),
}


@pytest.mark.usefixtures("rbac")
@pytest.mark.parametrize(("verb", "group", "resource", "where"), MUST_NOT.values(), ids=MUST_NOT)
def test_the_operator_must_not(
    server: Server, verb: str, group: str, resource: str, where: str
) -> None:
    right = (group, resource, verb, "")
    if resource == "secrets/spotrun-agents":
        right = (group, "secrets", verb, "spotrun-agents")
    assert not server.may(OPERATOR, verb, **at(right, where))


@pytest.mark.usefixtures("rbac")
def test_kubectl_says_the_same(cluster: Cluster) -> None:
    ask = ("auth", "can-i", f"--as={OPERATOR}", "-n", "default")
    assert cluster.kubectl(*ask, "create", "pods", check=False).stdout == "yes\n"
    assert cluster.kubectl(*ask, "get", "secrets", check=False).stdout == "no\n"
    assert (
        cluster.kubectl(*ask, "create", "pods", "--subresource=exec", check=False).stdout == "no\n"
    )


def test_namespaced_rights_end_at_the_namespace(cluster: Cluster, server: Server) -> None:
    """The same file with other names, for the rights by rbac.yaml may be there already."""
    names = {
        SYSTEM: "scoped-system",
        "spotrun-cluster": "scoped-cluster",
        "spotrun-node-events": "scoped-node-events",
        " ml": " scoped",
    }
    text = (FOLDER / "rbac-namespaced.yaml").read_text()
    for old, new in names.items():
        text = text.replace(old, new)
    apply(cluster, namespace("scoped"), namespace("neighbour"))
    cluster.kubectl("apply", "-f", "-", input=text)
    operator = OPERATOR.replace(SYSTEM, "scoped-system")

    def may(right: Right, where: str) -> bool:
        return server.may(operator, right[2], **at(right, where))

    (last,) = (r for r in EVERYWHERE if r[1] == "tokenreviews")
    until(lambda: may(last, "") and may(AT_HOME[-1], "scoped-system"), "the roles to be in use")
    cluster_wide = {"nodes", "namespaces", "persistentvolumes", "capacitypools", "tokenreviews"}
    here = [r for r in EVERYWHERE if r[1].partition("/")[0] not in cluster_wide]
    assert [r for r in EVERYWHERE if not may(r, "scoped")] == []
    assert [r for r in AT_HOME if not may(r, "scoped-system")] == []
    assert [r for r in here if may(r, "neighbour")] == []
    pods = ("", "pods", "list", "")
    assert not may(pods, "")  # nor over all namespaces


PEOPLE = {
    "view": ({"get", "list", "watch"}, set[str]()),
    "edit": (
        {"get", "list", "watch", "create", "patch", "update", "delete", "deletecollection"},
        {"patch", "update"},
    ),
}


@pytest.mark.usefixtures("rbac")
@pytest.mark.parametrize("role", ["view", "edit", "admin"])
def test_people_have_the_rights_with_the_roles_that_they_have(
    cluster: Cluster, server: Server, role: str
) -> None:
    user, where = f"person-who-may-{role}", "people"
    apply(cluster, namespace(where))
    cluster.kubectl(
        "-n", where, "create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}"
    )
    jobs, scale = PEOPLE.get(role, PEOPLE["edit"])
    verbs = PEOPLE["edit"][0]

    def may(verb: str, sub: str = "", to: str = where) -> bool:
        what = {"group": "spotrun.dev", "resource": "trainingjobs", "subresource": sub}
        return server.may(user, verb, namespace=to, **what)

    until(lambda: may("list"), f"the rights to be part of {role}")
    assert {verb for verb in verbs if may(verb)} == jobs
    assert {verb for verb in verbs if may(verb, "scale")} == scale | {"get"}
    assert {verb for verb in verbs if may(verb, "status")} == {"get"}
    assert not any(may(verb, "finalizers") for verb in verbs)
    assert not any(may(verb, to="default") for verb in verbs)


@pytest.mark.usefixtures("rbac")
def test_editors_may_train_with_any_account_of_their_namespace(
    cluster: Cluster, server: Server, guard: object
) -> None:
    """As they may run pods with any."""
    user, where = "editor", "guard-whole"
    cluster.kubectl(
        "-n", where, "create", "rolebinding", user, "--clusterrole=edit", f"--user={user}"
    )
    body = job({"workers.template.spec.serviceAccountName": "trains"})
    until(
        lambda: server.may(
            user, "create", group="spotrun.dev", resource="trainingjobs", namespace=where
        ),
        "the rights to be part of edit",
    )
    answer = server.try_to_create(user, where, body)
    assert answer.accepted, answer.message
