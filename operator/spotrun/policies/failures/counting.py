"""The count of failures: add one, take one back, or treat one as the refusal of a size."""

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
from spotrun.policies.failures.node_blame import blamed_with, guilty
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import Restarts, TriedSizes
from spotrun.state.view import View
from spotrun.state.world_members import training, world_number

FORGIVEN_AFTER = timedelta(hours=1)
"""After this much durable progress since the last failure the count starts again at zero."""


@dataclass(frozen=True)
class Failure:
    """A failure, with the message of the worker that reported it first."""

    reason: Reason
    exit_code: int | None
    message: str
    node: str | None = None
    follows: bool = False  # caused by a peer's end or silence, so its node is not blamed


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
    """Replace the last failure, which is counted already, by the failure that caused it."""
    sizes = status.restarts.sizes
    if status.restarts.last_world == world_number(status):
        sizes = _sizes_after(status, failure)
    if is_refusal(status.restarts.sizes, sizes):
        return _refused(view, status, failure, sizes, num_counted=2)
    status = replace(
        status, restarts=replace(with_last_failure(status.restarts, failure), sizes=sizes)
    )
    why = f"the last failure was caused by {failure.reason}: {failure.message}"
    return record(view, status, "Restart", why[:MAX_MESSAGE_CHARS], {})


def _sizes_after(status: JobState, failure: Failure) -> TriedSizes:
    """Return what a failure says about sizes: nothing if the worker only noticed a peer's end."""
    known = status.restarts.sizes
    if failure.follows:
        return known
    if failure.reason is not Reason.EXIT_CODE:
        return without_suspicion(known)
    return after_failed_start(known, len(training(status)), failure.message)


def _refused(
    view: View, status: JobState, failure: Failure, sizes: TriedSizes, num_counted: int
) -> JobState:
    """Take back the failures that this refusal caused: the one before, and maybe this one."""
    restarts = status.restarts
    forgiven = replace(
        restarts,
        failures=max(restarts.count - num_counted, 0),
        counted_since=view.now,
        retry_at=view.now + FIRST_PAUSE,  # by then the job keeps to its size
        last_world=world_number(status),
        last_reason=Reason.SIZE_REFUSED.value,
        last_exit_code=None,
        last_message=failure.message[:MAX_DETAIL_CHARS],
        last_follows=False,
        blamed=restarts.blamed[:-1],  # by the failure before; noticing one blames no node
        sizes=sizes,
    )
    why = why_held(forgiven)
    numbers = {"failures": str(forgiven.count), "workers": str(sizes.held)}
    return record(view, replace(status, restarts=forgiven), "Hold", why, numbers)


def with_last_failure(restarts: Restarts, failure: Failure) -> Restarts:
    """Return the restarts with this failure as the last; noticing a failure blames no node."""
    code = failure.exit_code
    nodes = () if failure.follows else guilty(failure.node, failure.message)
    return replace(
        restarts,
        last_reason=failure.reason.value,
        last_exit_code=code if code is not None and 0 <= code <= 255 else None,
        last_message=failure.message[:MAX_DETAIL_CHARS],
        last_follows=failure.follows,
        blamed=blamed_with(restarts, nodes),
    )


def take_back(view: View, status: JobState, cause: Reason) -> JobState:
    """Take back the last failure, because the platform caused it.

    If it was taken for the refusal of a size, the failure before it counts again.
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
    why = f"the failure was caused by {cause}: {cause.purpose}"
    return record(view, status, "Forgive", why, {"failures": str(failures)})


def _is_forgiven(status: JobState) -> bool:
    since = status.restarts.counted_since
    if since is None or status.checkpoint is None:
        return False
    return status.checkpoint.time - since >= FORGIVEN_AFTER


def _blamed_before(restarts: Restarts) -> tuple[str, ...]:
    """Return the nodes blamed before the last failure; hangs and noticed failures blame no node."""
    none_blamed = restarts.last_reason == Reason.HUNG or restarts.last_follows
    return restarts.blamed if none_blamed else restarts.blamed[:-1]
