"""Growth and notices: workers join, departing and surplus workers leave, at a step boundary.

Growth has two phases. The next world is published with `active: false`, so that joining workers get
warm while the others train. Once they are ready, it is entered.
"""

from datetime import timedelta

from spotrun.api.status import Entry
from spotrun.policies.failures.joining_workers import held_back
from spotrun.policies.failures.policy import waits_for_retry
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.policies.placement.plan import retiring
from spotrun.policies.world.checkpoint_requests import is_restart_planned, is_saved, may_be_asked
from spotrun.policies.world.join_timeout import just_left_out
from spotrun.state.job_state import JobState
from spotrun.state.replicas import bring_all, by_replica, holds_all, led_by, whole
from spotrun.state.snapshot import Worker
from spotrun.state.view import View, leaves_at
from spotrun.state.world_members import (
    all_in_process,
    can_be_asked_to_save,
    has_failed_in,
    is_prepared,
    missing,
    some_unheard,
    state_holders,
    training,
    training_set,
    world_members,
)
from spotrun.state.world_transitions import fill_in, publish

LEAD_SECONDS = 8.0
"""A departing worker leaves this long before its node; some clouds give 15 s of notice."""
TOGETHER_SECONDS = 5.0
"""Notices come in groups: workers that must leave within this time of each other leave together.
"""
SCRIPT_LEAD_SECONDS = 30.0
"""The lead for a script that saves only when it is ended; some clouds' notices are no longer."""
JOINING_SECONDS = 1.0
"""Workers join in groups, because losses come in groups: wait this long for one more worker."""
JOINING_AT_MOST_SECONDS = 5.0
"""The longest wait for all of them together."""
PREPARE_SECONDS = 300.0
"""Joining workers that are ready wait this long for others that are not."""


def resize(view: View, status: JobState) -> JobState:
    """Add joining workers, and let departing and surplus workers leave."""
    hurry = _somebody_must_leave_now(view, status)
    if some_unheard(view, world_members(view, status)):
        return status
    if missing(view, status) and not hurry:
        return fill_in(view, status, is_active=False)  # one change at a time
    chosen = _choose(view, status, with_unready=True)
    if (hurry or growth_wake_after_seconds(view, status) == 0.0) and not _all_ready(
        view, status, chosen
    ):
        at_once = _choose(view, status, with_unready=False)
        if {worker.worker_id for worker in at_once} != set(training(status)):
            chosen = at_once
    if not hurry and _are_more_to_come(view, status, chosen):
        return fill_in(view, status, is_active=False)
    return _change_to(view, status, chosen)


def growth_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when ready workers join without the others; 0: now. None: no world is prepared."""
    world = status.world
    if world.is_active or not world.members or world.formed_at is None:
        return None
    waited_seconds = (view.now - world.formed_at) / timedelta(seconds=1)
    # Others may come and fail meanwhile: each time another world is prepared, and ready ones still
    # wait.
    ready = _joining_workers(view, status, set(training(status)), with_unready=False)
    ages = [w.agent.ready_seconds or 0.0 for w in ready if w.agent is not None]
    return max(PREPARE_SECONDS - max([waited_seconds, *ages]), 0.0)


def joining_workers_wake_after_seconds(view: View, status: JobState) -> float:
    """Return how long to wait for more joining workers; 0: no longer."""
    world, training_now = status.world, set(training(status))
    outside = [w.agent for w in view.staying if w.worker_id not in training_now and w.is_ready]
    ages = [agent.ready_seconds or 0.0 for agent in outside if agent is not None]
    waits = [0.0]
    if ages:
        last, first = JOINING_SECONDS - min(ages), JOINING_AT_MOST_SECONDS - max(ages)
        waits.append(min(last, first))
    if not world.is_active and world.formed_at is not None:
        # Workers that are not ready also report one by one, and each would cause another world.
        prepared_seconds = (view.now - world.formed_at) / timedelta(seconds=1)
        waits.append(JOINING_SECONDS - prepared_seconds)
    return max(waits)


def leave_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when the next departing worker must be left out."""
    moments = (leaves_at(worker) for worker in view.alive)
    lead_seconds = _lead_seconds(view, status)
    waits = [(at - view.now) / timedelta(seconds=1) - lead_seconds for at in moments if at]
    return min((wait for wait in waits if wait > 0), default=None)


def _are_more_to_come(view: View, status: JobState, chosen: list[Worker]) -> bool:
    """Whether a larger world, or one without departing workers, would soon follow this one."""
    worker_ids = {worker.worker_id for worker in chosen}
    is_whole = len(chosen) >= view.limited_size and worker_ids <= view.staying_worker_ids
    if worker_ids <= set(training(status)) or is_whole:
        return False
    return joining_workers_wake_after_seconds(view, status) > 0


def _change_to(view: View, status: JobState, chosen: list[Worker]) -> JobState:
    world, training_now = status.world, set(training(status))
    worker_ids = {worker.worker_id for worker in chosen}
    is_active = _all_ready(view, status, chosen)
    is_world = worker_ids == world.member_set
    # A process that failed while it got warm cannot enter a world in which it was before.
    if is_world and not any(has_failed_in(worker, world.number) for worker in chosen):
        waits = save_wake_after_seconds(view, status) > 0
        return fill_in(view, status, is_active=is_active and not waits)
    if worker_ids == training_now:
        # The prepared world has lost its joining workers, or they are not wanted any more. It stays
        # until another one is prepared: to enter it without a change would cost a stall.
        return status
    if not chosen:
        why = "too few workers stay: their script saves when it is told to end"
        return publish(view, status, [], Entry.RESTART, why, is_active=False, is_planned=True)
    joins, stay = len(worker_ids - training_now), len(worker_ids & training_now)
    brings_state = stay and _with_the_state(view, status, chosen)
    entry = Entry.BOUNDARY if brings_state and _is_in_process(view, status) else Entry.RESTART
    why = f"{joins} join, {len(training_now)} train now, {len(worker_ids)} will train"
    if entry is Entry.RESTART and _should_save_first(view, status):
        is_active = False
    # A trainer that saves on order has saved by then: it needs no time to end, so the others need
    # not wait this much longer for a worker that does not return.
    is_planned = not can_be_asked_to_save(view, status)
    return publish(view, status, chosen, entry, why, is_active=is_active, is_planned=is_planned)


def save_wake_after_seconds(view: View, status: JobState) -> float:
    """Return how long a planned restart still waits for its checkpoint.

    It waits no longer than saving may take, and not for a script that follows no orders: such a
    script is told when it must end, and can save then.
    """
    if not is_restart_planned(view, status) or is_saved(view, status):
        return 0.0
    if not may_be_asked(view, status):
        return 0.0
    world, training_now = status.world, set(training(status))
    if world.formed_at is None or _somebody_must_leave_now(view, status):
        return 0.0
    joining = [view.by_worker_id[n] for n in world.members if n not in training_now]
    ages = [w.agent.ready_seconds or 0.0 for w in joining if w.agent is not None]
    waited_seconds = min([(view.now - world.formed_at) / timedelta(seconds=1), *ages])
    return max(CHECKPOINT_SECONDS - waited_seconds, 0.0)


def _should_save_first(view: View, status: JobState) -> bool:
    is_hurried = _somebody_must_leave_now(view, status)
    return may_be_asked(view, status) and not is_hurried and not is_saved(view, status)


def _choose(view: View, status: JobState, *, with_unready: bool) -> list[Worker]:
    """Choose the next world: members keep their place; joining workers precede departing ones."""
    members = world_members(view, status)
    inside = {worker.worker_id for worker in members}
    joining = _joining_workers(view, status, inside, with_unready=with_unready)
    if not all(view.is_current(worker) for worker in members):  # a world has one template
        renewed = whole(view, joining)
        return renewed if len(renewed) == view.limited_size else members
    going = retiring(view, status, view.limited_size)
    staying, replaced = _parted(
        [w for w in members if w.worker_id in view.staying_worker_ids], going
    )
    staying.sort(key=lambda worker: worker.pod.lent)  # lent ones go first where there are too many
    # A joining worker that must leave as well takes no member's place: this would repeat for ever.
    remaining, passing = _parted(joining, going)
    # A joining worker whose replica is not complete yet takes no place in another replica either.
    alone = _without_mates(view, [*staying, *remaining]) & {w.worker_id for w in remaining}
    remaining, early = _parted(remaining, alone)
    candidates = [*staying, *remaining, *replaced, *early, *passing]
    leaving = _who_can_stay(view, status, candidates)
    candidates += leaving
    chosen = whole(view, candidates)
    if chosen and _with_the_state(view, status, chosen):
        return chosen
    holders = [*replaced, *leaving]
    handed = _hand_over(view, status, chosen, holders) if chosen and holders else None
    if handed:
        return handed
    saves_now = _saves_when_ended(view, status) and _somebody_must_leave_now(view, status)
    return chosen if saves_now else members  # a script saves when told to end; empty: too few stay


def _parted(workers: list[Worker], worker_ids: frozenset[int]) -> tuple[list[Worker], list[Worker]]:
    """Return the workers without these numbers, and those with them."""
    others = [worker for worker in workers if worker.worker_id not in worker_ids]
    return others, [worker for worker in workers if worker.worker_id in worker_ids]


def _without_mates(view: View, workers: list[Worker]) -> frozenset[int]:
    """Return the workers whose replica is not complete among these."""
    spec = view.job.effective_workers
    replicas = by_replica(workers, spec).values()
    return frozenset(w.worker_id for one in replicas if not holds_all(one, spec) for w in one)


def _hand_over(
    view: View, status: JobState, chosen: list[Worker], holders: list[Worker]
) -> list[Worker] | None:
    """Let joining workers continue alone: a state holder stays a while, or a checkpoint has all.

    Return None while this is impossible: then the workers that train continue.
    """
    workers = view.job.effective_workers
    if len(chosen) > workers.per_replica and all_in_process(world_members(view, status)):
        handed = whole(view, led_by(holders, chosen, workers))
        if _with_the_state(view, status, handed):
            return handed
    is_ready = all(worker.is_ready for worker in chosen)
    return chosen if is_ready and _outlives_a_restart(view, status) else None


def _outlives_a_restart(view: View, status: JobState) -> bool:
    """Whether the state is saved, or the script saves it when it is told to end."""
    return _saves_when_ended(view, status) or is_saved(view, status)


def _saves_when_ended(view: View, status: JobState) -> bool:
    """Whether a script must save when it is told to end, because it follows no orders.

    It may save in a place of its own that `spec.checkpoint` does not name.
    """
    return not can_be_asked_to_save(view, status)


def _lead_seconds(view: View, status: JobState) -> float:
    return SCRIPT_LEAD_SECONDS if _saves_when_ended(view, status) else LEAD_SECONDS


def _joining_workers(
    view: View, status: JobState, inside: set[int], *, with_unready: bool
) -> list[Worker]:
    """Return who may join: no worker that failed just now, and nobody while failures repeat."""
    if waits_for_retry(view, status) and status.restarts.count > 1:
        return []
    in_process, held = _is_in_process(view, status), held_back(view, status)
    if held and not in_process:
        return []  # each attempt restarts all workers
    outside = inside | held | just_left_out(view, status)
    heard = [w for w in view.staying if w.worker_id not in outside and w.agent is not None]
    prepared = [worker for worker in heard if is_prepared(worker, in_process=in_process)]
    if not with_unready:
        return prepared
    first = {worker.worker_id for worker in prepared}
    return [*prepared, *(worker for worker in heard if worker.worker_id not in first)]


def _with_the_state(view: View, status: JobState, chosen: list[Worker]) -> bool:
    """Whether the next world has workers that hold all of the state, if any worker holds it."""
    holders = state_holders(view, status)
    return not holders or bring_all(holders, chosen, view.job.effective_workers)


def _all_ready(view: View, status: JobState, chosen: list[Worker]) -> bool:
    training_now = training_set(status)
    joining = [worker for worker in chosen if worker.worker_id not in training_now]
    # If no member stays, all start from the checkpoint: no process gets warm before that.
    in_process = len(joining) < len(chosen) and _is_in_process(view, status)
    return all(is_prepared(worker, in_process=in_process) for worker in joining)


def _is_in_process(view: View, status: JobState) -> bool:
    return all_in_process(world_members(view, status))


def _somebody_must_leave_now(view: View, status: JobState) -> bool:
    seconds = _lead_seconds(view, status)
    return any(_leaves_within(view, worker, seconds) for worker in world_members(view, status))


def _who_can_stay(view: View, status: JobState, others: list[Worker]) -> list[Worker]:
    """Return the departing members that have time left; they leave together where possible."""
    members = [w for w in world_members(view, status) if w.worker_id not in view.staying_worker_ids]
    seconds = _lead_seconds(view, status)
    stay = [worker for worker in members if not _leaves_within(view, worker, seconds)]
    if len(stay) == len(members):
        return stay
    longest = [w for w in stay if not _leaves_within(view, w, seconds + TOGETHER_SECONDS)]
    return longest if whole(view, [*others, *longest]) else stay


def _leaves_within(view: View, worker: Worker, seconds: float) -> bool:
    moment = leaves_at(worker)
    return moment is not None and (moment - view.now) / timedelta(seconds=1) <= seconds
