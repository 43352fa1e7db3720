"""The rights that `kueue.enabled` adds are no more than are used: by the API server's audit log."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.chart.helpers import IMAGE, Helm, of_kind
from tests.integration.manifests.helpers import OPERATOR, apply, namespace
from tests.integration.process.helpers import HOME, token, write_kubeconfig
from tests.integration.queueing.helpers import create_job, make
from tests.support.cluster.audit_log import AuditLog
from tests.support.cluster.operator_world import World
from tests.support.cluster.rights import Right, denied, granted, used

GROUP = "kueue.x-k8s.io"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


async def test_each_right_that_kueue_needs_is_granted_and_each_that_is_granted_is_used(
    queued: World, own_audit: AuditLog, helm: Helm, tmp_path: Path
) -> None:
    rendered = helm.template(IMAGE, "--set=kueue.enabled=true")
    documents = [one for kind in RIGHTS for one in of_kind(rendered, kind)]
    apply(queued.cluster, namespace(HOME), *documents)
    account = write_kubeconfig(queued.cluster, token(queued.cluster), tmp_path / "kubeconfig")
    queued.home = HOME
    await make(queued, "WorkloadPriorityClass", f"high-{queued.namespace}", None, value=10)
    events: list[dict[str, Any]] = []
    async with queued.operator(kubeconfig=account, kueue=True):
        await create_job(queued, "job", 1, 3)
        await queued.until_phase("Running")
        await create_job(queued, "waits", 2, 2)
        await queued.until_job(lambda s: "Queue: the job waits" in s.get("message", ""), "waits")
        await queued.patch_job({"workers": {"replicas": 3}}, "waits")
        await create_job(queued, "urgent", 4, 4, priority_class=f"high-{queued.namespace}")
        await queued.until_phase("Running", "urgent")
        queued.play("urgent").may_finish.set()
        await queued.until_phase("Running")
        await queued.patch_job({"suspend": True})
        await queued.until_phase("Suspended")

        async def are_all_used() -> bool:
            events.extend(own_audit.new())
            return not unused(granted(documents), events)

        try:
            await queued.until(are_all_used)
        except TimeoutError:
            pytest.fail(f"granted and not used: {sorted(unused(granted(documents), events))}")
    assert {event["user"]["username"] for event in events} == {OPERATOR}
    assert denied(events) == []


def unused(rights: set[Right], events: list[dict[str, Any]]) -> set[Right]:
    """Return the rights for Kueue that nobody has used."""
    return {one for one in rights if one.group == GROUP} - used(events)
