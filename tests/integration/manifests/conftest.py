import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.guard_cases import (
    AUTHOR,
    IMPERSONATOR,
    KEEPER_OF_ALL,
    KEEPER_OF_ONE,
    REFUSED,
    STRANGER,
    USER_OF_ACCOUNT,
    Refused,
)
from tests.integration.manifests.helpers import (
    GUARD,
    Server,
    apply,
    grant,
    namespace,
    only,
    rule,
    shipped,
    until,
)

WHOLE = "guard-whole"
"""The namespace in which the guard stands as it is shipped."""

ALWAYS = "guard-always"
"""The namespace of a guard that also looks at updates that change nothing of what it guards."""

_CREATE_PODS = rule("", "pods", "create")
_RIGHTS: dict[str, tuple[dict[str, Any], ...]] = {
    AUTHOR: (_CREATE_PODS,),
    STRANGER: (),
    USER_OF_ACCOUNT: (_CREATE_PODS, rule("", "serviceaccounts", "use", "trains")),
    IMPERSONATOR: (_CREATE_PODS, rule("", "serviceaccounts", "impersonate", "trains")),
    KEEPER_OF_ONE: (_CREATE_PODS, rule("", "secrets", "get", "storage")),
    KEEPER_OF_ALL: (_CREATE_PODS, rule("", "secrets", "get")),
}


@pytest.fixture(scope="session")
def server(cluster: Cluster, crds: None) -> Server:
    address = urlsplit(cluster.admin.server)
    assert address.hostname is not None
    return Server(address.hostname, address.port or 443, cluster.admin.ssl_context())


@pytest.fixture(scope="session")
def rbac(cluster: Cluster, crds: None) -> None:
    """The operator's rights over all namespaces, and those of its users."""
    apply(cluster, *shipped("rbac.yaml"), *shipped("rbac-users.yaml"))


@dataclass(frozen=True)
class Guard:
    """The shipped policy, whole in one namespace and with one rule less in each of the others."""

    spec: dict[str, Any]

    def index(self, case: Refused) -> int:
        """The rule that the case breaks."""
        rules = self.spec["validations"]
        (found,) = (
            i
            for i, rule in enumerate(rules)
            if case.says in rule.get("message", rule.get("messageExpression", ""))
        )
        return found

    def without(self, index: int) -> dict[str, Any]:
        """The policy with one rule less."""
        weaker = copy.deepcopy(self.spec)
        del weaker["validations"][index]
        return weaker

    def always(self) -> dict[str, Any]:
        """The policy without its condition."""
        return {k: v for k, v in self.spec.items() if k != "matchConditions"}

    def variants(self) -> dict[str, dict[str, Any]]:
        """Namespaces, each with the policy that stands there."""
        weaker = {weakened(i): self.without(i) for i in range(len(self.spec["validations"]))}
        return {WHOLE: self.spec, ALWAYS: self.always(), **weaker}


def weakened(index: int) -> str:
    """The namespace in which one rule is missing."""
    return f"guard-without-{index}"


def _stands_in(place: str, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A policy and its binding for one namespace; other tests share the cluster."""
    policy, binding = copy.deepcopy(shipped("admission.yaml"))
    policy["metadata"]["name"] = binding["metadata"]["name"] = place
    policy["spec"] = spec
    binding["spec"]["policyName"] = place
    binding["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"guard": place}}}
    return [policy, binding]


@pytest.fixture(scope="session")
def guard(cluster: Cluster, server: Server) -> Iterator[Guard]:
    policy = only(shipped("admission.yaml"), "ValidatingAdmissionPolicy", GUARD)
    guard = Guard(policy["spec"])
    jobs = rule("spotrun.dev", "trainingjobs", "get list watch create update patch delete")
    searches = rule("spotrun.dev", "tuningjobs", "create")
    rights = [part for user, own in _RIGHTS.items() for part in grant(user, jobs, searches, *own)]
    variants = guard.variants()
    policies = [part for place, spec in variants.items() for part in _stands_in(place, spec)]
    apply(cluster, *(namespace(place, guard=place) for place in variants), *rights, *policies)
    for place in variants:
        until(lambda: _is_active(server, guard, place), f"the guard of {place}")  # noqa: B023
    yield guard
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        cluster.kubectl("delete", kind, *variants, "--wait=false")


def _is_active(server: Server, guard: Guard, place: str) -> bool:
    """Whether the place's policy is enforced: seen by a rule that it still has."""
    case = next(case for case in REFUSED if weakened(guard.index(case)) != place)
    answer = server.try_to_create(case.user, place, case.job)
    return not answer.accepted and case.says in answer.message
