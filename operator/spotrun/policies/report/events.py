"""Events of a job: which changes of the status are announced to people, and with which message.

What the status does not show, policies announce themselves.
"""

from collections.abc import Iterable

from spotrun.api.field_types.text_values import Time
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.failures.backoff import pause_after
from spotrun.policies.failures.joining_workers import noted
from spotrun.state.actions import Announce
from spotrun.state.conditions import find, read_reason
from spotrun.state.job_state import JobState
from spotrun.state.stored.statements import Condition

_PLACEMENTS = frozenset({Reason.PLACED, Reason.FALLBACK, Reason.BACK_TO_SPOT})
_OVER = frozenset({Phase.SUCCEEDED, Phase.FAILED})


def announcements(old: JobState, new: JobState) -> tuple[Announce, ...]:
    """Return the events for a change of status."""
    return (
        *_world(old, new),
        *_placement(old, new),
        *_schedule(old, new),
        *_idleness(old, new),
        *_interruption(old, new),
        *_failure(old, new),
        *_joining_workers(old, new),
        *_rejection(old, new),
        *_refusal(old, new),
        *_writes(old, new),
        *_saves(old, new),
        *_slowness(old, new),
        *_precedence(old, new),
        *_suspension(old, new),
        *_recovery(old, new),
        *_end(old, new),
    )


def _world(old: JobState, new: JobState) -> Iterable[Announce]:
    before, world = old.world, new.world
    if not world.is_active or not world.members:
        return
    if before.number == world.number and before.is_active:
        return
    why = new.decisions[-1].why if new.decisions and new.decisions != old.decisions else ""
    message = f"world {world.number}: {len(world.members)} workers, entered by {world.entry.value}"
    yield Announce(Reason.TRAINING, f"{message}; {why}" if why else message)


def _placement(old: JobState, new: JobState) -> Iterable[Announce]:
    known = old.decisions
    for one in new.decisions:
        if one.what in _PLACEMENTS and one not in known:
            yield Announce(read_reason(one.what, Reason.PLACED), one.why)


def _schedule(old: JobState, new: JobState) -> Iterable[Announce]:
    if now := _turned(old, new, ConditionType.ON_SCHEDULE, ConditionStatus.FALSE):
        yield Announce(
            read_reason(now.reason, Reason.DEADLINE_AT_RISK), now.message, is_warning=True
        )


def _idleness(old: JobState, new: JobState) -> Iterable[Announce]:
    if now := _turned(old, new, ConditionType.IDLE, ConditionStatus.TRUE):
        yield Announce(Reason.NOTHING_USED, now.message, is_warning=True)


def _interruption(old: JobState, new: JobState) -> Iterable[Announce]:
    before, now = old.interruptions.count, new.interruptions
    if now.last is None or now.count <= before:
        return
    last, more = now.last, now.count - before - 1
    where = f" on node {last.node}" if last.node else ""
    others = f", and {more} more" if more else ""
    reason = read_reason(last.reason, Reason.NODE_LOST)
    yield Announce(reason, f"worker {last.worker}{where} was taken away{others}", is_warning=True)


def _failure(old: JobState, new: JobState) -> Iterable[Announce]:
    before, now = old.restarts, new.restarts
    if not now.count or now.retry_at is None or new.phase is Phase.FAILED:
        return
    if (now.failures, now.counted_since) == (before.failures, before.counted_since):
        return
    code = f", exit code {now.last_exit_code}" if now.last_exit_code is not None else ""
    message = f"failure {now.failures}{code}; the next attempt is at {Time.of(now.retry_at)}"
    yield Announce(read_reason(now.last_reason, Reason.EXIT_CODE), message, is_warning=True)


def _rejection(old: JobState, new: JobState) -> Iterable[Announce]:
    before, now = old.rejections, new.rejections
    if now is not None and (before is None or now.retry_at != before.retry_at):
        yield Announce(Reason.REJECTED, now.message, is_warning=True)


def _joining_workers(old: JobState, new: JobState) -> Iterable[Announce]:
    """Announce failures of joining workers while their pause grows; later ones add nothing new."""
    before, now = (noted(status) for status in (old, new))
    if now is None or (before is not None and now.retry_at == before.retry_at):
        return
    if before is not None and pause_after(now.failures) == pause_after(before.failures):
        return
    decision = next(one for one in reversed(new.decisions) if one.what == "HoldBack")
    reason = read_reason(decision.numbers.get("reason"), Reason.EXIT_CODE)
    yield Announce(
        reason, f"{decision.why}; the next attempt is at {Time.of(now.retry_at)}", is_warning=True
    )


def _refusal(old: JobState, new: JobState) -> Iterable[Announce]:
    if now := _turned(old, new, ConditionType.TEMPLATE_ACCEPTED, ConditionStatus.FALSE):
        yield Announce(
            read_reason(now.reason, Reason.TEMPLATE_REFUSED), now.message, is_warning=True
        )


def _writes(old: JobState, new: JobState) -> Iterable[Announce]:
    if now := _turned(old, new, ConditionType.WRITTEN, ConditionStatus.FALSE):
        yield Announce(Reason.WRITE_FAILED, now.message, is_warning=True)


def _saves(old: JobState, new: JobState) -> Iterable[Announce]:
    kind = ConditionType.CHECKPOINTS_DURABLE
    if now := _turned(old, new, kind, ConditionStatus.FALSE):
        yield Announce(Reason.SAVE_FAILED, now.message, is_warning=True)
    if now := _turned(old, new, kind, ConditionStatus.TRUE):
        yield Announce(Reason.TRAINING, now.message)


def _slowness(old: JobState, new: JobState) -> Iterable[Announce]:
    if now := _turned(old, new, ConditionType.EVEN_SPEED, ConditionStatus.FALSE):
        yield Announce(Reason.SLOW_WORKER, now.message, is_warning=True)


def _precedence(old: JobState, new: JobState) -> Iterable[Announce]:
    """Announce which job gives way to which; for a suspended job the suspension says so."""
    is_told = bool(old.suspended_by) != bool(new.suspended_by)
    kinds = {Reason.MAKES_ROOM} if is_told else {Reason.MAKES_ROOM, Reason.GIVES_WAY}
    for one in new.decisions:
        if one.what in kinds and one not in old.decisions:
            yield Announce(read_reason(one.what, Reason.GIVES_WAY), one.why)


def _suspension(old: JobState, new: JobState) -> Iterable[Announce]:
    if bool(old.suspended_by) == bool(new.suspended_by):
        return
    if not new.suspended_by:
        yield Announce(Reason.TRAINING, "the job continues")
        return
    found = find(new, ConditionType.SUSPENDED)
    reason = read_reason(found.reason if found else None, Reason.SUSPENDED_BY_USER)
    words = found.message if found else reason.purpose
    yield Announce(reason, words, is_warning=reason is Reason.IDLE)


def _recovery(old: JobState, new: JobState) -> Iterable[Announce]:
    if new.phase is Phase.RECOVERING and old.phase is Phase.RUNNING:
        reason = read_reason(new.reason, Reason.WAITING_FOR_WORKERS)
        yield Announce(reason, new.message or "fewer workers than min are left", is_warning=True)


def _end(old: JobState, new: JobState) -> Iterable[Announce]:
    if new.phase in _OVER and old.phase not in _OVER:
        failed = new.phase is Phase.FAILED
        reason = read_reason(new.reason, Reason.EXIT_CODE if failed else Reason.COMPLETED)
        yield Announce(reason, new.message or "the job is over", is_warning=failed)


def _turned(
    old: JobState, new: JobState, kind: ConditionType, to: ConditionStatus
) -> Condition | None:
    """Return a condition that has this status now, and had another one before or was absent."""
    before, now = find(old, kind), find(new, kind)
    if now is None or now.status is not to:
        return None
    return now if before is None or before.status is not to else None
