"""Preemptions: which job gives way to which; computed from all jobs, each stores its own part.

A gang that lacks nodes chooses victims once at a time. It chooses again only when all chosen jobs
have given the room that was asked for, and the scheduler had time to use it. So a price that
changes meanwhile makes no other job give way as well. If no worker found a node that way, the
victims get their room back: something that the operator does not know uses these nodes. A new
leader finds the jobs that give way from what they have stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from spotrun.api.names import Reason
from spotrun.kube.resource import Key
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.jobs.victims import Candidate, Victims, name_of
from spotrun.policies.placement.queueing.gang import PATIENCE
from spotrun.policies.placement.queueing.giving_way import claimed_workers, waits_for_room
from spotrun.policies.placement.queueing.preemption import (
    SUSPENDED,
    Victim,
    most_room,
    preempt,
)
from spotrun.state.sizes import NO_PRECEDENCE, Order, Precedence, Preemptor, RoomMade
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.workers import GivenWay
from spotrun.state.view import holds_back

SETTLED = timedelta(seconds=15)
"""The scheduler tries a pod again within 10 s of the moment at which a node becomes free."""
AGAIN = timedelta(seconds=10)
"""The pause after a choice without a result: meanwhile jobs come, and prices change."""
LOOK_SECONDS = 2.0


@dataclass
class _Claim:
    key: Key
    uid: str
    priority: int
    orders: dict[Key, Order] = field(default_factory=dict)
    made: RoomMade | None = None
    chosen_at: datetime | None = None
    given_at: datetime | None = None  # since when all jobs have given what was asked for
    begun_at: datetime | None = None
    missing: int = 0  # the workers that lacked nodes at that time
    rests_until: datetime | None = None  # the room did not help: it takes nothing until then
    times_in_vain: int = 0


class Preemptions:
    """The claims of gangs that preempt; `wake` is called with the jobs that must give way."""

    def __init__(
        self,
        jobs: JobCaches,
        victims: Victims,
        wake: Callable[[Key], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._jobs = jobs
        self._victims = victims
        self._wake = wake
        self._wall = wall
        self._claims: dict[Key, _Claim] = {}

    def look_at(self, job: JobSnapshot) -> Precedence:
        """Note what a job claims, and return what it must give to others, or gets from them."""
        key = Key(job.namespace, job.name)
        if waits_for_room(job):
            self._claim(key, job)
        else:
            self.forget(key)
        claim, given = self._claims.get(key), job.status.gives_way
        if not self._claims and given is None:
            return NO_PRECEDENCE
        is_held = given is not None and given.until is None
        return Precedence(
            free_strays=self._victims.free_strays(job) if is_held else 0,
            order=next((c.orders[key] for c in self._claims.values() if key in c.orders), None),
            preemptor=self._preemptor(given) if given is not None else Preemptor.IS_GONE,
            grows_after=self._grows_after(job),
            made=claim.made if claim is not None else None,
        )

    def wake_after_seconds(self, key: Key) -> float:
        """Return the seconds until a claim is examined again."""
        return LOOK_SECONDS if key in self._claims else float("inf")

    def forget(self, key: Key) -> None:
        """Forget the claim of a job; the jobs that gave way for it may look for room."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._wake_all(claim.orders)

    def forget_all(self) -> None:
        """Forget all claims."""
        self._claims.clear()

    def _claim(self, key: Key, job: JobSnapshot) -> None:
        claim = self._claims.get(key)
        if claim is None or claim.uid != job.uid:
            claim = self._claims[key] = _Claim(key, job.uid, job.spec.priority)
        claim.priority = job.spec.priority
        missing, now = claimed_workers(job), self._wall()
        if not missing or self._rests(claim, now) or self._is_under_way(claim, now):
            return
        if claim.orders and missing >= claim.missing:
            self._give_up(claim, now)
            return
        if claim.chosen_at is not None and now - claim.chosen_at < AGAIN:
            return
        claim.chosen_at = now
        found = list(self._victims.of_lower_priority(job))
        if claim.begun_at is None and (known := self._already_given(job.uid)):
            # How many workers lacked nodes at that time is not stored, so the room is not called
            # useless.
            claim.orders, claim.begun_at, claim.missing = known, now, missing + 1
            if not _has_said(job):
                gives = (_what_it_gives(name_of(key), one.workers) for key, one in known.items())
                claim.made = RoomMade(now, _who_gives(missing, gives), missing)
            return
        self._choose(claim, job, missing, [one for one in found if one.may_be_asked])

    def _choose(
        self, claim: _Claim, job: JobSnapshot, missing: int, found: list[Candidate]
    ) -> None:
        victims = [one.victim for one in found]
        asked = self._victims.claim(job, missing, victims)
        plan, now = preempt(asked, victims), self._wall()
        if not plan.sizes:
            claim.made = RoomMade(now, _why_nobody(missing, most_room(asked, victims), victims))
            return
        new = {
            one.key: Order(
                name_of(claim.key),
                job.uid,
                plan.sizes[one.victim.job],
                _why(claim, missing, one),
                one.victim.usd_of(plan.sizes[one.victim.job]),
            )
            for one in found
            if one.victim.job in plan.sizes
        }
        claim.orders |= new
        claim.begun_at, claim.given_at, claim.missing = claim.begun_at or now, None, missing
        had = {one.victim.job: len(one.victim.workers) for one in found}
        gives = (_what_it_gives(job, size, had[job]) for job, size in plan.sizes.items())
        claim.made = RoomMade(now, _who_gives(missing, gives), missing)
        self._wake_all(new)

    def _rests(self, claim: _Claim, now: datetime) -> bool:
        """Whether a claim takes nothing from other jobs now, because the last time did not help."""
        if claim.begun_at is not None and now - claim.begun_at >= PATIENCE:
            self._give_up(claim, now)
        return claim.rests_until is not None and now < claim.rests_until

    def _give_up(self, claim: _Claim, now: datetime) -> None:
        """Let the victims have their room back; each time the pause before the next try doubles."""
        self._wake_all(claim.orders)
        claim.orders, claim.begun_at, claim.given_at = {}, None, None
        claim.rests_until = now + PATIENCE * 2 ** min(claim.times_in_vain, 10)
        claim.times_in_vain += 1
        claim.made = RoomMade(
            now, "the room that jobs of lower priority made did not help: they get it back"
        )

    def _is_under_way(self, claim: _Claim, now: datetime) -> bool:
        """Whether the victims still give what they were asked for, or have only just given it."""
        if not claim.orders:
            return False
        placed = self._victims.placed
        if any(placed(key) > order.workers for key, order in claim.orders.items()):
            claim.given_at = None
            return True
        claim.given_at = claim.given_at or now
        return now - claim.given_at < SETTLED

    def _already_given(self, uid: str) -> dict[Key, Order]:
        """Return the jobs that give way to a job, from what they have stored, for a new leader.

        This includes jobs that have given everything: the scheduler may not have used it yet.
        """
        return {
            key: Order(given.to, uid, given.workers, "")
            for key, given in self._victims.given_to(uid).items()
        }

    def _preemptor(self, given: GivenWay) -> Preemptor:
        namespace, _, name = given.to.partition("/")
        key = Key(namespace, name)
        claim = self._claims.get(key)
        if claim is not None and claim.uid == given.uid:
            rests = claim.rests_until is not None and self._wall() < claim.rests_until
            return Preemptor.IS_GONE if rests else Preemptor.WAITS
        job, found = self._jobs.get(key), self._jobs.spec_and_state(key)
        if job is None or found is None or job.metadata.uid != given.uid:
            return Preemptor.IS_GONE
        is_leaving = job.metadata.deletion_timestamp is not None or found[0].suspend
        return Preemptor.IS_GONE if is_leaving or holds_back(found[1]) else Preemptor.HAS_ROOM

    def _grows_after(self, job: JobSnapshot) -> str:
        if job.queue is not None:
            return ""
        for claim in self._claims.values():
            is_first = claim.priority > job.spec.priority and bool(claim.orders)
            if is_first and self._victims.reaches(claim.key.namespace, job.namespace):
                return name_of(claim.key)
        return ""

    def _wake_all(self, orders: Mapping[Key, Order]) -> None:
        for key in orders:
            self._wake(key)


def _why(claim: _Claim, missing: int, one: Candidate) -> str:
    return (
        f"job {name_of(claim.key)} of priority {claim.priority} lacks nodes for {missing} workers, "
        f"and this job is among the cheapest to interrupt: {_price(one)}"
    )


def _price(one: Candidate) -> str:
    victim = one.victim
    if not victim.smaller_sizes:
        return f"about {victim.suspend_usd}"
    return f"about {victim.shrink_usd} if it shrinks, {victim.suspend_usd} if it stops"


def _who_gives(missing: int, jobs: Iterable[str]) -> str:
    return f"{missing} workers lack nodes, and jobs of lower priority give way: {'; '.join(jobs)}"


def _has_said(job: JobSnapshot) -> bool:
    """Whether the status has a decision on the room that other jobs make for this one."""
    return any(one.what == Reason.MAKES_ROOM.value for one in job.status.decisions)


def _what_it_gives(job: str, size: int, had: int | None = None) -> str:
    """Say what a job gives; `had` is None if the number of workers before is not stored."""
    if size == SUSPENDED:
        return f"{job} is suspended"
    return f"{job} shrinks {f'from {had} ' if had is not None else ''}to {size} workers"


def _why_nobody(missing: int, room: int, victims: Sequence[Victim]) -> str:
    if not victims:
        return f"{missing} workers lack nodes, and no job of lower priority could give any"
    return (
        f"{missing} workers lack nodes. No job is preempted for them: even if all {len(victims)} "
        f"jobs of lower priority gave up all of their nodes, only {room} would find room"
    )
