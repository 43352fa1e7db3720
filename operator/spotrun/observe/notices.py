"""How nodes say that they are going away: one time out of every dialect. Pure.

Where a dialect gives no time, the typical lead of that platform counts from the first sight of the
notice. Too early costs a swap at a step boundary, too late costs steps: in doubt it is early.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from spotrun.observe.objects import NodeObject, ObjectCondition, Taint

WARNING = timedelta(minutes=2)
"""EC2 warns of a spot interruption two minutes ahead, and the autoscaler tries to evict for as long
(max-pod-eviction-time)."""
SHUTDOWN = timedelta(seconds=15)
"""Of GKE's 30 s the kubelet gives ordinary pods the first 15."""
REBALANCE = timedelta(minutes=10)
"""Karpenter's design: a rebalance recommendation typically comes 10-20 min before the warning."""
NOW = timedelta(0)

_KARPENTER_TAINTS = frozenset({"karpenter.sh/disrupted", "karpenter.sh/disruption"})
_KARPENTER_END = "karpenter.sh/nodeclaim-termination-timestamp"
_NTH = "aws-node-termination-handler/"
_NTH_TIME = "aws-node-termination-handler/action-time"
_AUTOSCALER = "ToBeDeletedByClusterAutoscaler"  # DeletionCandidateOf... is only considered so far
_LEADS = {
    f"{_NTH}spot-itn": WARNING,
    f"{_NTH}scheduled-maintenance": WARNING,
    f"{_NTH}asg-lifecycle-termination": WARNING,
    f"{_NTH}rebalance-recommendation": REBALANCE,
    "cloud.google.com/impending-node-termination": SHUTDOWN,
    # The machine is off already.
    "node.cloudprovider.kubernetes.io/shutdown": NOW,
    "node.kubernetes.io/out-of-service": NOW,
}
_SHUTTING_DOWN = "node is shutting down"


def has_notice(node: NodeObject) -> bool:
    """Whether the node says that it is going away."""
    return bool(_ends(node, datetime.min.replace(tzinfo=UTC), is_spot=False))


def leaves_at(node: NodeObject, seen_at: datetime, *, is_spot: bool) -> datetime | None:
    """When the node ends, for a notice that was first seen at a moment; None without a notice."""
    return min(_ends(node, seen_at, is_spot=is_spot), default=None)


def _ends(node: NodeObject, seen_at: datetime, *, is_spot: bool) -> list[datetime]:
    ends = [
        *_karpenter(node, seen_at, is_spot=is_spot),
        *_tainted(node, seen_at),
        *_shutdown(node.status.conditions, seen_at),
    ]
    if node.spec.unschedulable and not ends:
        # A drain, or a termination handler that sets no taint, which is its default. With another
        # notice the cordon is a part of that.
        ends.append(seen_at + WARNING)
    return ends


def _karpenter(node: NodeObject, seen_at: datetime, *, is_spot: bool) -> Iterable[datetime]:
    deleted_at = _time(node.metadata.deletion_timestamp)
    if deleted_at is None and not any(t.key in _KARPENTER_TAINTS for t in node.spec.taints):
        return
    hard = _time(node.metadata.annotations.get(_KARPENTER_END))
    if hard is not None:
        yield hard
    if hard is None or is_spot:
        # The annotation is the end of Karpenter's own patience (a pool's terminationGracePeriod may
        # be a day); the cloud that takes a spot machine back does not know it.
        yield (deleted_at or seen_at) + WARNING


def _tainted(node: NodeObject, seen_at: datetime) -> Iterable[datetime]:
    for taint in node.spec.taints:
        if taint.key == _AUTOSCALER:
            yield _since(taint, seen_at) + WARNING
        elif taint.key in _LEADS:
            stated = _unix(node.metadata.labels.get(_NTH_TIME, ""))
            is_stated = taint.key.startswith(_NTH) and stated is not None and stated > seen_at
            # The label says when it was set; some write the time of the event instead.
            yield stated if stated and is_stated else seen_at + _LEADS[taint.key]


def _shutdown(conditions: Iterable[ObjectCondition], seen_at: datetime) -> Iterable[datetime]:
    for condition in conditions:
        words = f"{condition.reason} {condition.message}"
        if condition.type == "Ready" and condition.status != "True" and _SHUTTING_DOWN in words:
            yield (_time(condition.last_transition_time) or seen_at) + SHUTDOWN


def _since(taint: Taint, seen_at: datetime) -> datetime:
    return _unix(taint.value) or seen_at


def _unix(text: str) -> datetime | None:
    # Ten digits last until 2286; more would be milliseconds, or nothing at all.
    if not (text.isascii() and text.isdigit() and len(text) == 10):
        return None
    return datetime.fromtimestamp(int(text), UTC)


def _time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
