"""The count of failures: one more, one taken back, one that was the refusal of a size."""

from dataclasses import dataclass, replace
from datetime import timedelta

from spotrun.api.field_types.bounded import MAX_DETAIL_CHARS, MAX_MESSAGE_CHARS
from spotrun.api.names import Reason
from spotrun.policies.failures.backoff import FIRST_PAUSE, pause_after
from spotrun.policies.failures.fixed_size import (
    after_failed_start,
    is_refusal,
    why_held,
    without_suspicion,
)
from spotrun.policies.failures.node_blame import blamed_with
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import Restarts, TriedSizes
from spotrun.state.view import View
from spotrun.state.world_members import training, world_number

FORGIVEN_AFTER = timedelta(hours=1)
"""After this much durable progress since the last failure the count starts afresh."""


@dataclass(frozen=True)
class Failure:
    """A failure, in the words of the first who said so."""

    reason: Reason
    exit_code: int | None
    message: str
    node: str | None = None
    follows: bool = False  # of a peer's end or silence; so its node is not to blame


def count(view: View, status: JobState, failure: Failure) -> JobState:
    """Count a failure, unless it is the refusal of a size."""
    sizes = _sizes_after(status, failure)
    if is_refusal(status.restarts.sizes, sizes):
        return _refused(view, status, failure, sizes, num_counted=1)
    restarts = replace(status.restarts, sizes=sizes)
    failures = 1 if _is_forgiven(status) else restarts.count + 1
    pause = pause_after(failures)
    counted = replace(
        restarts,
        failures=failures,
        counted_since=view.now,
        retry_at=view.now + pause,
        last_world=world_number(status),
    )
    counted = with_last_failure(counted, failure)
    status = replace(status, restarts=counted)
    said = {"failures": str(failures), "pauseSeconds": f"{pause.total_seconds():.0f}"}
    return record(
        view, status, "Restart", f"{failure.reason}: {failure.message}"[:MAX_MESSAGE_CHARS], said
    )


def put_cause(view: View, status: JobState, failure: Failure) -> JobState:
    """Put the cause in the place of the last failure, which is counted and followed from it."""
    sizes = status.restarts.sizes
    if status.restarts.last_world == world_number(status):
        sizes = _sizes_after(status, failure)
    if is_refusal(status.restarts.sizes, sizes):
        return _refused(view, status, failure, sizes, num_counted=2)
    status = replace(
        status, restarts=replace(with_last_failure(status.restarts, failure), sizes=sizes)
    )
    why = f"the last failure followed from {failure.reason}: {failure.message}"
    return record(view, status, "Restart", why[:MAX_MESSAGE_CHARS], {})


def _sizes_after(status: JobState, failure: Failure) -> TriedSizes:
    """Return what a failure tells of sizes: nothing, where only another's end was noticed."""
    known = status.restarts.sizes
    if failure.follows:
        return known
    if failure.reason is not Reason.EXIT_CODE:
        return without_suspicion(known)
    return after_failed_start(known, len(training(status)), failure.message)


def _refused(
    view: View, status: JobState, failure: Failure, sizes: TriedSizes, num_counted: int
) -> JobState:
    """Take back what is counted of this refusal: the failure before, and maybe this one."""
    restarts = status.restarts
    forgiven = replace(
        restarts,
        failures=max(restarts.count - num_counted, 0),
        counted_since=view.now,
        retry_at=view.now + FIRST_PAUSE,  # by then the job is known to keep to its size
        last_world=world_number(status),
        last_reason=Reason.SIZE_REFUSED.value,
        last_exit_code=None,
        last_message=failure.message[:MAX_DETAIL_CHARS],
        last_follows=False,
        blamed=restarts.blamed[:-1],  # by the failure before; who only noticed this one is not
        sizes=sizes,
    )
    why = why_held(forgiven)
    numbers = {"failures": str(forgiven.count), "workers": str(sizes.held)}
    return record(view, replace(status, restarts=forgiven), "Hold", why, numbers)


def with_last_failure(restarts: Restarts, failure: Failure) -> Restarts:
    """Return the restarts with a failure as the last one; who only noticed it is not blamed."""
    code = failure.exit_code
    guilty = (failure.node,) if failure.node and not failure.follows else ()
    return replace(
        restarts,
        last_reason=failure.reason.value,
        last_exit_code=code if code is not None and 0 <= code <= 255 else None,
        last_message=failure.message[:MAX_DETAIL_CHARS],
        last_follows=failure.follows,
        blamed=blamed_with(restarts, guilty),
    )


def take_back(view: View, status: JobState, cause: Reason) -> JobState:
    """Take back the last failure, for it followed from what the platform did.

    If that was taken for the refusal of a size, the failure before it counts again.
    """
    restarts, sizes, blamed = status.restarts, status.restarts.sizes, status.restarts.blamed
    if restarts.last_reason == Reason.SIZE_REFUSED:
        failures, sizes = restarts.count + 1, replace(sizes, held=None)
    else:
        failures, blamed = max(restarts.count - 1, 0), _blamed_before(restarts)
    forgiven = replace(
        restarts,
        failures=failures,
        retry_at=None,
        last_reason=cause.value,
        last_exit_code=None,
        last_follows=False,
        blamed=blamed,
        sizes=without_suspicion(sizes),
    )
    status = replace(status, restarts=forgiven)
    why = f"the failure followed from {cause}: {cause.purpose}"
    return record(view, status, "Forgive", why, {"failures": str(failures)})


def _is_forgiven(status: JobState) -> bool:
    since = status.restarts.counted_since
    if since is None or status.checkpoint is None:
        return False
    return status.checkpoint.time - since >= FORGIVEN_AFTER


def _blamed_before(restarts: Restarts) -> tuple[str, ...]:
    """Return who was blamed before the last failure; a standstill and who noticed blame nobody."""
    none_blamed = restarts.last_reason == Reason.HUNG or restarts.last_follows
    return restarts.blamed if none_blamed else restarts.blamed[:-1]
