"""The storage format of a job's state: `read` and `write` are the only way there and back."""

from collections.abc import Iterable

from spotrun.api import status as stored
from spotrun.api.field_types.text_values import Intervals, Time, WorkerIds
from spotrun.api.status import TrainingJobStatus
from spotrun.state.job_state import (
    NO_ORDERS,
    NO_WORLD,
    NOTHING_UNUSED,
    JobState,
    Orders,
    Unused,
    World,
)
from spotrun.state.stored.cost_codec import read_cost, read_sums, write_cost, write_sums
from spotrun.state.stored.failures_codec import (
    read_rejections,
    read_restarts,
    write_rejections,
    write_restarts,
)
from spotrun.state.stored.optional_values import moment_of, numbers, ordered, ranges, time_of
from spotrun.state.stored.scaling_codec import read_scaling, write_scaling
from spotrun.state.stored.statements_codec import (
    read_conditions,
    read_decisions,
    write_conditions,
    write_decisions,
)
from spotrun.state.stored.training_codec import (
    read_batch_change,
    read_checkpoint,
    read_course,
    read_local_checkpoint,
    read_metrics,
    read_pace,
    read_progress,
    read_saving,
    read_stage,
    write_batch_change,
    write_checkpoint,
    write_course,
    write_local_checkpoint,
    write_metrics,
    write_pace,
    write_progress,
    write_saving,
    write_stage,
)
from spotrun.state.stored.workers_codec import (
    read_given_way,
    read_interruptions,
    read_workers,
    write_given_way,
    write_interruptions,
    write_workers,
)


def read(status: TrainingJobStatus) -> JobState:
    """Read the state from a status that an operator can have written."""
    return JobState(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        observed_generation=status.observed_generation,
        suspended_by=status.suspended_by,
        workers=read_workers(status.workers),
        world=_read_world(status.world),
        progress=read_progress(status.progress),
        metrics=read_metrics(status.metrics),
        stage=read_stage(status.stage),
        stop_when=read_course(status.stop_when),
        checkpoint=read_checkpoint(status.checkpoint),
        local_checkpoint=read_local_checkpoint(status.local_checkpoint),
        saving=read_saving(status.saving),
        pace=read_pace(status.pace),
        scaling=read_scaling(status.scaling),
        orders=_read_orders(status.orders),
        interruptions=read_interruptions(status.interruptions),
        restarts=read_restarts(status.restarts),
        batch_change=read_batch_change(status.batch_change),
        rejections=read_rejections(status.rejections),
        unused=_read_unused(status.unused),
        gives_way=read_given_way(status.gives_way),
        cost=read_cost(status.cost),
        decisions=read_decisions(status.decisions),
        conditions=read_conditions(status.conditions),
        next_worker_id=status.next_worker_id,
        settled=ranges(status.settled),
        lost=numbers(status.lost),
        failed=numbers(status.failed),
        accumulators=read_sums(status.accumulators),
    )


def read_said(status: TrainingJobStatus) -> JobState:
    """Read phase, message and conditions from a status that no operator can have written.

    Its lists could fill the memory, so they are kept unread, until somebody fixes them.
    """
    return JobState(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        observed_generation=status.observed_generation,
        suspended_by=status.suspended_by,
        conditions=read_conditions(status.conditions),
        next_worker_id=status.next_worker_id,
        unread=status.model_dump_json(by_alias=True, exclude_unset=True),
    )


def write(state: JobState) -> TrainingJobStatus:
    """Write the state as it is stored."""
    if state.unread is not None:
        return _write_said(state, state.unread)
    # Policies respect the limits of the CRD; the API server checks them, and a refusal is reported.
    return TrainingJobStatus.model_construct(
        phase=state.phase,
        reason=state.reason,
        message=state.message,
        observed_generation=state.observed_generation,
        suspended_by=state.suspended_by,
        workers=write_workers(state.workers),
        world=_write_world(state.world),
        progress=write_progress(state.progress),
        metrics=write_metrics(state.metrics),
        stage=write_stage(state.stage),
        stop_when=write_course(state.stop_when),
        checkpoint=write_checkpoint(state.checkpoint),
        local_checkpoint=write_local_checkpoint(state.local_checkpoint),
        saving=write_saving(state.saving),
        pace=write_pace(state.pace),
        scaling=write_scaling(state.scaling),
        orders=_write_orders(state.orders),
        interruptions=write_interruptions(state.interruptions),
        restarts=write_restarts(state.restarts),
        batch_change=write_batch_change(state.batch_change),
        rejections=write_rejections(state.rejections),
        unused=_write_unused(state.unused),
        gives_way=write_given_way(state.gives_way),
        cost=write_cost(state.cost),
        decisions=write_decisions(state.decisions),
        conditions=write_conditions(state.conditions),
        next_worker_id=state.next_worker_id,
        settled=Intervals.of_intervals(state.settled.intervals) or None,
        lost=_worker_ids(sorted(state.lost)),
        failed=_worker_ids(sorted(state.failed)),
        accumulators=write_sums(state.accumulators),
    )


def _write_said(state: JobState, unread: str) -> TrainingJobStatus:
    """Write phase, message and conditions into a status that is kept unread."""
    kept = TrainingJobStatus.model_validate_json(unread, by_alias=True, by_name=False)
    return kept.having(
        phase=state.phase,
        reason=state.reason,
        message=state.message,
        conditions=write_conditions(state.conditions),
    )


def _read_world(world: stored.World | None) -> World:
    if world is None:
        return NO_WORLD
    return World(
        number=world.number,
        members=world.members.numbers,
        is_active=world.active,
        entry=world.entry,
        store=world.store,
        state_holders=ordered(world.state_holders),
        used_stores=world.used_stores or (),
        restore=world.restore,
        formed_at=moment_of(world.formed_at),
        training_number=world.training_number,
        late_workers=ordered(world.late_workers),
        joining_workers=ordered(world.joining_workers),
        breaks=world.breaks or 0,
        stage=world.stage or 0,
        is_planned=bool(world.planned),
    )


def _write_world(world: World) -> stored.World | None:
    if world == NO_WORLD:
        return None
    return stored.World.model_construct(
        number=world.number,
        members=WorkerIds.of(world.members),
        active=world.is_active,
        entry=world.entry,
        store=world.store,
        state_holders=_worker_ids(world.state_holders),
        used_stores=world.used_stores or None,
        restore=world.restore,
        formed_at=time_of(world.formed_at),
        training_number=world.training_number,
        late_workers=_worker_ids(world.late_workers),
        joining_workers=_worker_ids(world.joining_workers),
        breaks=world.breaks or None,
        stage=world.stage or None,
        planned=world.is_planned or None,
    )


def _read_orders(orders: stored.Orders | None) -> Orders:
    if orders is None:
        return NO_ORDERS
    return Orders(checkpoint=orders.checkpoint, asked_at=orders.time.datetime)


def _write_orders(orders: Orders) -> stored.Orders | None:
    if orders.asked_at is None:
        return None
    time = Time.of(orders.asked_at)
    return stored.Orders.model_construct(checkpoint=orders.checkpoint, time=time)


def _read_unused(unused: stored.Unused | None) -> Unused:
    if unused is None:
        return NOTHING_UNUSED
    return Unused(
        count=unused.count,
        size=unused.size,
        room=unused.room,
        retry_at=moment_of(unused.retry_at),
        retried_at=moment_of(unused.retried_at),
    )


def _write_unused(unused: Unused) -> stored.Unused | None:
    if unused == NOTHING_UNUSED:
        return None
    return stored.Unused.model_construct(
        count=unused.count,
        size=unused.size,
        room=unused.room,
        retry_at=time_of(unused.retry_at),
        retried_at=time_of(unused.retried_at),
    )


def _worker_ids(some: Iterable[int]) -> WorkerIds | None:
    return WorkerIds.of(some) or None
