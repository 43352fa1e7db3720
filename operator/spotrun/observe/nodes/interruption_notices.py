"""Interruption notices of nodes: one end time from the signs of every cloud. Pure.

If a sign gives no time, that platform's typical lead time counts from the moment the notice was
first seen. An end time that is too early costs a swap at a step boundary, one that is too late
costs steps: so in doubt the earlier time is used.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spotrun.observe.kube_objects import EventObject, NodeObject, ObjectCondition, Taint

WARNING = timedelta(minutes=2)
"""EC2 warns of a spot interruption two minutes ahead, and the autoscaler tries to evict pods for
the same time (max-pod-eviction-time)."""
SHUTDOWN = timedelta(seconds=15)
"""The kubelet gives ordinary pods the first 15 of GKE's 30 s."""
REBALANCE = timedelta(minutes=10)
"""Karpenter's design: a rebalance recommendation typically comes 10-20 min before the warning."""
NOW = timedelta(0)

INTERRUPTED = "SpotInterrupted"
REBALANCED = "SpotRebalanceRecommendation"

_KARPENTER_TAINTS = frozenset({"karpenter.sh/disrupted", "karpenter.sh/disruption"})
_KARPENTER_END = "karpenter.sh/nodeclaim-termination-timestamp"
_NTH = "aws-node-termination-handler/"
_NTH_TIME = "aws-node-termination-handler/action-time"
_NTH_EVENT = "aws-node-termination-handler/event-id"
_NTH_SPOT = f"{_NTH}spot-itn"
_AUTOSCALER = "ToBeDeletedByClusterAutoscaler"  # a DeletionCandidateOf... taint is no notice yet
_GKE = "cloud.google.com/impending-node-termination"
_OFF = frozenset({"node.cloudprovider.kubernetes.io/shutdown", "node.kubernetes.io/out-of-service"})
_NTH_LEADS = {
    _NTH_SPOT: WARNING,
    f"{_NTH}scheduled-maintenance": WARNING,
    f"{_NTH}asg-lifecycle-termination": WARNING,
    f"{_NTH}rebalance-recommendation": REBALANCE,
}
_LEADS = {**_NTH_LEADS, _GKE: SHUTDOWN, **dict.fromkeys(_OFF, NOW)}
_SHUTTING_DOWN = "node is shutting down"


@dataclass(frozen=True)
class EventTimes:
    """The times of the last events that announce the end of a node."""

    interrupted_at: datetime | None = None
    rebalanced_at: datetime | None = None


NO_EVENTS = EventTimes()


def has_notice(node: NodeObject) -> bool:
    """Whether the node itself says that it is going away."""
    return bool(_ends(node, datetime.min.replace(tzinfo=UTC), is_spot=False))


def leaves_at(
    node: NodeObject, seen_at: datetime, *, is_spot: bool, events: EventTimes = NO_EVENTS
) -> datetime | None:
    """Return when the node ends, by a notice first seen at `seen_at`; None without a notice."""
    ends = _ends(node, seen_at, is_spot=is_spot)
    if events.interrupted_at is not None:
        ends.append(events.interrupted_at + WARNING)
    if events.rebalanced_at is not None:
        ends.append(events.rebalanced_at + REBALANCE)
    return min(ends, default=None)


def is_reclaimed(node: NodeObject, *, is_spot: bool, events: EventTimes = NO_EVENTS) -> bool:
    """Whether the cloud takes the machine back; False if the cluster gives it up.

    Karpenter marks both cases alike; only its event distinguishes them.
    """
    if events.interrupted_at is not None:
        return True
    keys = {taint.key for taint in node.spec.taints}
    event = f"{_NTH}{node.metadata.labels.get(_NTH_EVENT, '')}"
    if _NTH_SPOT in keys or (node.spec.unschedulable and event.startswith(_NTH_SPOT)):
        return True
    is_ending = _GKE in keys or any(map(_is_shutting_down, node.status.conditions))
    return is_spot and (is_ending or not keys.isdisjoint(_OFF))


def is_karpenters(node: NodeObject) -> bool:
    """Whether Karpenter takes the node away, for whatever reason."""
    return any(taint.key in _KARPENTER_TAINTS for taint in node.spec.taints)


def _ends(node: NodeObject, seen_at: datetime, *, is_spot: bool) -> list[datetime]:
    ends = [
        *_karpenter(node, seen_at, is_spot=is_spot),
        *_tainted(node, seen_at),
        *_shutdown(node.status.conditions, seen_at),
    ]
    if node.spec.unschedulable and not ends:
        # A drain, or a termination handler that sets no taint, which is its default. If there is
        # another notice, the cordon belongs to it.
        ends.append(_cordoned(node, seen_at))
    return ends


def _karpenter(node: NodeObject, seen_at: datetime, *, is_spot: bool) -> Iterable[datetime]:
    deleted_at = time_of(node.metadata.deletion_timestamp)
    if deleted_at is None and not is_karpenters(node):
        return
    hard = time_of(node.metadata.annotations.get(_KARPENTER_END))
    if hard is not None:
        yield hard
    if hard is None or is_spot:
        # The annotation says how long Karpenter itself waits (a pool's terminationGracePeriod may
        # be a day); a cloud that takes a spot machine back does not respect it.
        yield (deleted_at or seen_at) + WARNING


def _tainted(node: NodeObject, seen_at: datetime) -> Iterable[datetime]:
    for taint in node.spec.taints:
        if taint.key == _AUTOSCALER:
            yield _since(taint, seen_at) + WARNING
        elif taint.key in _NTH_LEADS:
            yield _stated_by_handler(node, seen_at) or seen_at + _LEADS[taint.key]
        elif taint.key in _LEADS:
            yield seen_at + _LEADS[taint.key]


def _cordoned(node: NodeObject, seen_at: datetime) -> datetime:
    """The handler's labels give the reason for its cordon; any other cordon counts as a warning."""
    event = f"{_NTH}{node.metadata.labels.get(_NTH_EVENT, '')}"
    found = [lead for name, lead in _NTH_LEADS.items() if event.startswith(name)]
    if not found:
        return seen_at + WARNING
    return _stated_by_handler(node, seen_at) or seen_at + found[0]


def _stated_by_handler(node: NodeObject, seen_at: datetime) -> datetime | None:
    """Return the time in the handler's label, if it is later than `seen_at`."""
    stated = _unix(node.metadata.labels.get(_NTH_TIME, ""))
    return stated if stated is not None and stated > seen_at else None


def _shutdown(conditions: Iterable[ObjectCondition], seen_at: datetime) -> Iterable[datetime]:
    for condition in filter(_is_shutting_down, conditions):
        yield (time_of(condition.last_transition_time) or seen_at) + SHUTDOWN


def _is_shutting_down(condition: ObjectCondition) -> bool:
    words = f"{condition.reason} {condition.message}"
    return condition.type == "Ready" and condition.status != "True" and _SHUTTING_DOWN in words


def _since(taint: Taint, seen_at: datetime) -> datetime:
    return _unix(taint.value) or seen_at


def _unix(text: str) -> datetime | None:
    # Ten digits suffice until 2286; more would be milliseconds, or no time at all.
    if not (text.isascii() and text.isdigit() and len(text) == 10):
        return None
    return datetime.fromtimestamp(int(text), UTC)


_SKEW = timedelta(minutes=1)
"""The clocks of other machines may be this far ahead; an event from further in the future is
ignored."""


def time_of(text: str | None) -> datetime | None:
    """Parse a time that other programs wrote; None for one that cannot be calculated with."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and 2000 <= moment.year < 3000 else None


def written_recently(event: EventObject, now: datetime, good_for: timedelta) -> datetime | None:
    """Return when an event was last written; None if too long ago, in the future, or no time."""
    moment = time_of(event.deprecated_last_timestamp or event.event_time)
    return moment if moment is not None and now - good_for < moment <= now + _SKEW else None
