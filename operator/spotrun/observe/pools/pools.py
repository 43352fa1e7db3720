"""The pools of the cluster: their nodes, and what happened to them.

Kept up to date from the events of nodes, of our own pods and of CapacityPools, one node at a time;
a pool is computed when it is asked for. Events are kept until the pool's status holds them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

from spotrun.api.capacitypool import Capacity, CapacityPoolSpec
from spotrun.kube.resource import Key
from spotrun.money.price_history import NodePrice
from spotrun.money.shares import left, total
from spotrun.observe.kube_objects import NodeObject, PodObject, PoolObject
from spotrun.observe.nodes.cloud_labels import Labels, identity_of
from spotrun.observe.nodes.facts import created_at, is_ready
from spotrun.observe.nodes.interruption_notices import (
    EventTimes,
    has_notice,
    is_karpenters,
    is_reclaimed,
)
from spotrun.observe.pools.free_capacity import Kind, Room, Slot
from spotrun.observe.pools.membership import declared_for, discovered_spec, other_name, pool_name
from spotrun.observe.pools.objects import Member, News, Pool, asked, is_over, read_pool
from spotrun.observe.resources import requests_of, resources_of
from spotrun.policies.pool.lifetimes import Life

MOST_EVENTS = 1_000  # of one pool, until its status holds them


class Pools:
    """The pools; `changed` is called with the name of each one that has news."""

    def __init__(
        self,
        *,
        pods_on: Callable[[str], Iterable[PodObject]],
        events: Callable[[NodeObject], EventTimes],
        changed: Callable[[str], None],
        wall: Callable[[], datetime],
        is_worker: Callable[[PodObject], bool] = lambda _: True,
    ) -> None:
        self.room = Room()
        self.waiting: dict[Key, PodObject] = {}
        self._pods_on = pods_on
        self._events_of = events
        self._changed = changed
        self._wall = wall
        self._is_worker = is_worker
        self._pools: dict[str, Pool] = {}
        self._declared: list[tuple[str, CapacityPoolSpec]] = []
        self._nodes: dict[str, Member] = {}
        self._members: dict[str, dict[str, Member]] = defaultdict(dict)
        self._news: dict[str, News] = defaultdict(News)
        self._workers: Counter[str] = Counter()
        self._revisions: Counter[str] = Counter()
        self._stamps: Counter[str] = Counter()
        self.stamp = 0  # changes whenever anything in any pool changes

    # what exists -----------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of all pools, including those that are not created yet."""
        return sorted(self._pools.keys() | {name for name, nodes in self._members.items() if nodes})

    def get(self, name: str) -> Pool | None:
        """Return a pool; None if it has neither an object nor a node."""
        known = self._pools.get(name)
        if known is not None:
            return known
        member = next(iter(self._members.get(name, {}).values()), None)
        if member is None:
            return None
        labels = member.node.metadata.labels
        identity = identity_of(labels)
        assert identity is not None, "a node of an unknown type is in no pool that was found"
        return Pool(name, discovered_spec(identity, labels))

    def members(self, name: str) -> Iterable[Member]:
        """The nodes of a pool."""
        return self._members.get(name, {}).values()

    def workers(self, name: str) -> int:
        """Return the number of workers, of all jobs, on a pool's nodes."""
        return self._workers[name]

    def revision(self, name: str) -> int:
        """Return a number that changes with a pool's nodes and object, but not with pods."""
        return self._revisions[name]

    def stamp_of(self, name: str) -> int:
        """Return a number that changes with anything in a pool, its workers included."""
        return self._stamps[name]

    def news(self, name: str) -> News:
        """Return the events in a pool that its status may not hold yet."""
        return self._news.get(name, News())

    def place(self, node: NodeObject) -> tuple[str, Capacity] | None:
        """Return the pool of a node, and its capacity type there; None if it is in none."""
        member = self._nodes.get(node.metadata.name)
        pool = self.get(member.pool) if member is not None and member.pool is not None else None
        return (pool.name, pool.spec.capacity) if pool is not None else None

    def price_of(self, name: str) -> NodePrice | None:
        """Return the price of a pool's node, from its status."""
        pool = self._pools.get(name)
        return pool.status.price if pool is not None else None

    # what happens --------------------------------------------------------------------------------

    def pool_changed(self, old: PoolObject | None, new: PoolObject | None) -> bool:
        """Process a changed CapacityPool; return whether the declared pools have changed."""
        one = new or old
        assert one is not None, "a change has an old or a new side"
        name = one.metadata.name
        self._revisions[name] += 1
        before = self._pools.pop(name, None)
        now = read_pool(new) if new is not None else None
        if now is not None:
            self._pools[name] = now
            self._forget_what_is_held(now)
        is_declared_anew = (before and before.declared) != (now and now.declared)
        if is_declared_anew:
            declared = (pool for pool in self._pools.values() if not pool.is_ours)
            self._declared = [(pool.name, pool.spec) for pool in declared]
        if is_declared_anew or before is None:
            affected = self._nodes if is_declared_anew else self._members[name]
            for member in tuple(affected.values()):
                self._take_in(member.node)
        self.room_changed(name)
        return is_declared_anew

    def node_changed(self, old: NodeObject | None, new: NodeObject | None) -> None:
        """Process a changed node."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._take_leave(old)
        if new is not None:
            self._take_in(new, is_first=old is None)

    def look_again(self, node: NodeObject) -> None:
        """Examine a node again because an event is about it."""
        self._take_in(node)

    def pod_changed(self, old: PodObject | None, new: PodObject | None) -> None:
        """Process a changed worker: it waits for a node, has one, or has left it."""
        key = _key(new or old)
        waits = new is not None and new.spec.node_name is None and not is_over(new)
        if waits and new is not None:
            self.waiting[key] = new
            self.touch_asked(new)
        elif self.waiting.pop(key, None) is not None and new is not None:
            self._was_bound(new)
        if _holds(old) != _holds(new):
            for node in (_holds(old), _holds(new)):
                if node is not None:
                    self._count(node)

    def touch_asked(self, pod: PodObject) -> None:
        """Mark the pools that a worker waits for as changed."""
        for name in asked(pod):
            if name in self._pools or name in self._members:
                self._touch(name)

    # ---------------------------------------------------------------------------------------------

    def _take_in(self, node: NodeObject, *, is_first: bool = False) -> None:
        name, labels = node.metadata.name, node.metadata.labels
        known = self._nodes.get(name)
        pool = self._pool_for(labels)
        has = resources_of(node.status.allocatable)
        member = Member(node, pool, created_at(node) or self._wall(), has)
        if known is not None:
            member.reclaimed_at, member.workers = known.reclaimed_at, known.workers
            if known.pool is not None and known.pool != pool:
                self._drop(known)
                member.workers = 0
        self._nodes[name] = member
        if pool is None:
            self.room.put_stray(name, has)
            self.stamp += 1
            return
        self._members[pool][name] = member
        self._revisions[pool] += 1
        self._note_reclaim(member, pool, is_first=is_first)
        self._count(name)

    def _take_leave(self, node: NodeObject) -> None:
        name = node.metadata.name
        member = self._nodes.pop(name, None)
        self.room.put(name, None, None)
        if member is None or member.pool is None:
            self.stamp += 1
            return
        if member.reclaimed_at is None:
            taken = self._was_taken(member)
            self._add_life(member.pool, Life(member.born_at, self._wall(), taken))
        self._drop(member)

    def _drop(self, member: Member) -> None:
        """Remove a node from its pool."""
        assert member.pool is not None, "it was in one"
        del self._members[member.pool][member.node.metadata.name]
        self._workers[member.pool] -= member.workers
        self._revisions[member.pool] += 1
        self._touch(member.pool)

    def _pool_for(self, labels: Labels) -> str | None:
        declared = declared_for(self._declared, labels)
        if declared is not None:
            return declared
        identity = identity_of(labels)
        if identity is None:
            return None
        name = pool_name(identity)
        known = self._pools.get(name)
        return name if known is None or known.is_of(identity) else other_name(identity)

    def _note_reclaim(self, member: Member, pool: str, *, is_first: bool) -> None:
        """Count a machine as taken back as soon as it has a notice; once, whatever follows.

        If it was already under notice when first seen, the leader before this one has counted it.
        """
        spec = self._spec_of(pool)
        is_spot = spec is not None and spec.capacity is Capacity.SPOT
        if member.reclaimed_at is not None or not is_reclaimed(
            member.node, is_spot=is_spot, events=self._events_of(member.node)
        ):
            return
        member.reclaimed_at = self._wall()
        if not is_first:
            self._add_life(pool, Life(member.born_at, member.reclaimed_at, taken=True))

    def _was_taken(self, member: Member) -> bool:
        """Whether a node that is gone was taken back, because nothing had announced its removal.

        Karpenter does not remove nodes with our workers unless it has to, so such a node was taken
        too.
        """
        if not has_notice(member.node):
            return True
        return is_karpenters(member.node) and member.workers > 0

    def _count(self, name: str) -> None:
        """Count the room that our own pods leave on a node; other pods are unknown."""
        member = self._nodes.get(name)
        if member is None or member.pool is None:
            return
        node = member.node
        pods = [pod for pod in self._pods_on(name) if not is_over(pod)]
        self._workers[member.pool] += len(pods) - member.workers
        member.workers = len(pods)
        slot = None
        is_going = has_notice(node) or self._events_of(node) != EventTimes()
        if is_ready(node) and not is_going:
            free = left(member.has, total(map(requests_of, pods)))
            slot = Slot(Kind.of(node.metadata.labels, node.spec.taints), free, not pods)
        self.room.put(name, member.pool, slot)
        self._touch(member.pool)

    def _was_bound(self, pod: PodObject) -> None:
        """Note how long a node took to come if it was created after the worker that got it."""
        member = self._nodes.get(pod.spec.node_name or "")
        created = pod.metadata.creation_timestamp
        if member is None or member.pool is None or created is None or not self._is_worker(pod):
            return
        since = datetime.fromisoformat(created)
        if member.born_at > since:
            now = self._wall()
            found = self._news[member.pool].provisioned
            found.append((now, (now - since).total_seconds()))
            del found[:-MOST_EVENTS]

    def room_changed(self, pool: str) -> None:
        """Mark a pool as changed because its room changed, although no node shows that."""
        self.stamp += 1
        self._stamps[pool] += 1

    def _touch(self, pool: str) -> None:
        self.room_changed(pool)
        self._changed(pool)

    def _add_life(self, pool: str, life: Life) -> None:
        lives = self._news[pool].lives
        lives.append(life)
        del lives[:-MOST_EVENTS]

    def _forget_what_is_held(self, pool: Pool) -> None:
        news, as_of = self._news.get(pool.name), pool.status.as_of
        if news is None or as_of is None:
            return
        news.lives[:] = [one for one in news.lives if one.ended_at and one.ended_at > as_of]
        news.provisioned[:] = [one for one in news.provisioned if one[0] > as_of]

    def _spec_of(self, name: str) -> CapacityPoolSpec | None:
        pool = self.get(name)
        return pool.spec if pool is not None else None


def _holds(pod: PodObject | None) -> str | None:
    """Return the node on which a worker holds resources."""
    return pod.spec.node_name if pod is not None and not is_over(pod) else None


def _key(pod: PodObject | None) -> Key:
    assert pod is not None, "a change has an old or a new side"
    return Key(pod.metadata.namespace, pod.metadata.name)
