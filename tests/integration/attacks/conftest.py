import asyncio
import copy
import uuid
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from devcluster.cluster import Cluster
from spotrun.kube.rest.client import Client
from tests.integration.agents.helpers import NAMESPACES, Any_, Pods
from tests.integration.attacks.helpers import (
    MAKES_PODS,
    SCALES_JOBS,
    WRITES_JOBS,
    Tenant,
    make_tenant,
)
from tests.integration.manifests.helpers import apply, shipped, until
from tests.support.api.manifest_cases import job

GUARD = "guard-of-attacks"


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the operator runs on, where its server stands alone: its TLS is another one."""
    if item.path.stem in {"test_floods", "test_paths", "test_plain_ports", "test_tokens"}:
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def guard(cluster: Cluster, crds: None) -> Iterator[None]:
    """The guard as it is shipped, in the namespaces of the attackers."""
    policy, binding = copy.deepcopy(shipped("admission.yaml"))
    policy["metadata"]["name"] = binding["metadata"]["name"] = GUARD
    binding["spec"]["policyName"] = GUARD
    attackers = {"namespaceSelector": {"matchLabels": {"guard": "attacks"}}}
    binding["spec"]["matchResources"] = attackers
    apply(cluster, policy, binding)
    yield
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        cluster.kubectl("delete", kind, GUARD, "--wait=false")


@pytest.fixture(scope="session")
def tenant(cluster: Cluster, guard: None) -> Tenant:
    """Somebody who may write TrainingJobs, and nothing else."""
    tenant = make_tenant(cluster, "attack-tenant", WRITES_JOBS)

    def is_guarded() -> bool:
        answer = tenant.try_to("POST", tenant.jobs(query="dryRun=All"), job())
        return answer.status != 201

    until(is_guarded, "the guard to stand")
    return tenant


@pytest.fixture(scope="session")
def editor(cluster: Cluster, tenant: Tenant) -> Tenant:
    """Somebody who may make pods, too, as whoever has the role `edit` may."""
    return make_tenant(cluster, "attack-editor", WRITES_JOBS, SCALES_JOBS, MAKES_PODS)


@pytest.fixture(scope="session")
def made(cluster: Cluster, tenant: Tenant) -> str:
    """A job of the tenant's namespace that somebody else has made, with rights of their own."""
    body = job({"suspend": True})
    body["metadata"]["namespace"] = tenant.namespace
    apply(cluster, body)
    return str(body["metadata"]["name"])


@pytest.fixture
async def pods(direct: Client) -> Pods:
    """Pods that nobody runs, which is enough for tokens to be bound to them."""
    name = f"attack-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await direct.create(NAMESPACES, body, Any_)
    pods = Pods(direct, name)
    await pods.make_account()
    return pods
