from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster.client import Manifest
from devcluster.notices import Dialect, Write, marks, notice, take_back

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DEADLINE = datetime(2026, 1, 2, 3, 6, 5, tzinfo=UTC)
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(*taints: Manifest, **meta: Any) -> Manifest:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "7", **meta}
    return {"metadata": metadata, "spec": {"taints": list(taints)} if taints else {}}


def patch(meta: Manifest, spec: Manifest) -> Write:
    body: Manifest = {"metadata": meta | {"resourceVersion": "7"}}
    if spec:
        body["spec"] = spec
    return Write("PATCH", "/api/v1/nodes/n", body, "application/merge-patch+json")


def test_the_spot_notice_of_the_node_termination_handler() -> None:
    event_id = "spot-itn-0123456789abcdef"
    taint = {
        "key": "aws-node-termination-handler/spot-itn",
        "value": event_id,
        "effect": "NoSchedule",
    }
    assert notice(Dialect.NTH_SPOT, node(GPU), DEADLINE, NOW) == [
        patch(
            {
                "labels": {
                    "aws-node-termination-handler/action": "cordon-and-drain",
                    "aws-node-termination-handler/action-time": "1767323165",
                    "aws-node-termination-handler/event-id": event_id,
                }
            },
            {"taints": [GPU, taint], "unschedulable": True},
        )
    ]


def test_the_interruption_of_a_node_of_karpenter() -> None:
    event, change = notice(Dialect.KARPENTER_SPOT, node(), DEADLINE, NOW)
    assert (event.method, event.path) == ("POST", "/api/v1/namespaces/default/events")
    assert (event.body["type"], event.body["reason"]) == ("Warning", "SpotInterrupted")
    assert event.body["involvedObject"]["uid"] == "u"
    end = "karpenter.sh/nodeclaim-termination-timestamp"
    disrupted = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    assert change == patch({"annotations": {end: "2026-01-02T03:06:05Z"}}, {"taints": [disrupted]})


def test_a_deletion_by_karpenter_sets_its_finalizer_first() -> None:
    change, deletion = notice(Dialect.KARPENTER_DELETION, node(), DEADLINE, NOW)
    assert change.body["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert (deletion.method, deletion.path) == ("DELETE", "/api/v1/nodes/n")


@pytest.mark.parametrize(
    ("dialect", "key", "effect"),
    [
        (Dialect.AUTOSCALER, "ToBeDeletedByClusterAutoscaler", "NoSchedule"),
        (
            Dialect.AUTOSCALER_CANDIDATE,
            "DeletionCandidateOfClusterAutoscaler",
            "PreferNoSchedule",
        ),
        (Dialect.GKE_IMPENDING, "cloud.google.com/impending-node-termination", "NoSchedule"),
        (Dialect.CLOUD_SHUTDOWN, "node.cloudprovider.kubernetes.io/shutdown", "NoSchedule"),
        (Dialect.OUT_OF_SERVICE, "node.kubernetes.io/out-of-service", "NoExecute"),
        (
            Dialect.NTH_MAINTENANCE,
            "aws-node-termination-handler/scheduled-maintenance",
            "NoSchedule",
        ),
        (
            Dialect.NTH_ASG,
            "aws-node-termination-handler/asg-lifecycle-termination",
            "NoSchedule",
        ),
        (
            Dialect.NTH_REBALANCE,
            "aws-node-termination-handler/rebalance-recommendation",
            "NoSchedule",
        ),
    ],
)
def test_the_taint_of_a_dialect(dialect: Dialect, key: str, effect: str) -> None:
    (taint,) = marks(dialect, DEADLINE, NOW).taints
    assert (taint["key"], taint["effect"]) == (key, effect)


def test_the_autoscalers_taint_tells_when_it_was_put() -> None:
    (taint,) = marks(Dialect.AUTOSCALER, DEADLINE, NOW).taints
    assert taint["value"] == "1767323045"


def test_a_cordon_is_nothing_but_a_cordon() -> None:
    assert notice(Dialect.CORDON, node(GPU), DEADLINE, NOW) == [patch({}, {"unschedulable": True})]
    assert take_back(Dialect.CORDON, node(GPU)) == [patch({}, {"unschedulable": None})]


def test_a_hint_leaves_the_node_alone() -> None:
    (event,) = notice(Dialect.KARPENTER_REBALANCE, node(), DEADLINE, NOW)
    assert (event.body["type"], event.body["reason"]) == ("Normal", "SpotRebalanceRecommendation")
    assert take_back(Dialect.KARPENTER_REBALANCE, node()) == []


@pytest.mark.parametrize("dialect", [d for d in Dialect if d is not Dialect.KARPENTER_DELETION])
def test_taking_back_removes_what_the_notice_put_and_nothing_else(dialect: Dialect) -> None:
    before = node(GPU)
    after = before
    for write in notice(dialect, before, DEADLINE, NOW):
        after = merged(after, write.body) if write.method == "PATCH" else after
    for write in take_back(dialect, after):
        after = merged(after, write.body)
    left = {k: v for k, v in after["metadata"].items() if v != {}}
    assert {**after, "metadata": left} == before


def test_a_deletion_cannot_be_taken_back() -> None:
    with pytest.raises(ValueError, match="vanish"):
        take_back(Dialect.KARPENTER_DELETION, node())


def merged(target: Manifest, change: Manifest) -> Manifest:
    """Apply a JSON merge patch (RFC 7386)."""
    result = dict(target)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result
