"""The storage format of a job's failures, a part of what `codec.py` reads and writes."""

from spotrun.api import status as api
from spotrun.api.field_types.text_values import Time, WorkerIds
from spotrun.state.stored.failures import (
    NO_RESTARTS,
    NO_SIZES,
    HeldBack,
    JoiningWorkers,
    Rejections,
    Restarts,
    TriedSizes,
)
from spotrun.state.stored.optional_values import moment_of, ordered, time_of


def read_restarts(stored: api.Restarts | None) -> Restarts:
    """Read the failures so far."""
    if stored is None:
        return NO_RESTARTS
    return Restarts(
        failures=stored.failures,
        counted_since=moment_of(stored.counted_since),
        retry_at=moment_of(stored.retry_at),
        last_world=stored.last_world_number,
        last_reason=stored.last_reason,
        last_exit_code=stored.last_exit_code,
        last_message=stored.last_message,
        last_follows=bool(stored.last_follows),
        blamed=stored.blamed or (),
        joining_workers=_read_joining_workers(stored.joining_workers),
        sizes=_read_sizes(stored.sizes),
    )


def write_restarts(restarts: Restarts) -> api.Restarts | None:
    """Write the failures so far; None where there were none."""
    if restarts == NO_RESTARTS:
        return None
    return api.Restarts.model_construct(
        failures=restarts.failures,
        counted_since=time_of(restarts.counted_since),
        retry_at=time_of(restarts.retry_at),
        last_world_number=restarts.last_world,
        last_reason=restarts.last_reason,
        last_exit_code=restarts.last_exit_code,
        last_message=restarts.last_message,
        last_follows=restarts.last_follows or None,
        blamed=restarts.blamed or None,
        joining_workers=_write_joining_workers(restarts.joining_workers),
        sizes=_write_sizes(restarts.sizes),
    )


def _read_sizes(stored: api.TriedSizes | None) -> TriedSizes:
    if stored is None:
        return NO_SIZES
    return TriedSizes(
        trained=stored.trained or (),
        suspect=stored.suspect,
        error=stored.error,
        held=stored.held,
        template=stored.template,
    )


def _write_sizes(sizes: TriedSizes) -> api.TriedSizes | None:
    if sizes == NO_SIZES:
        return None
    return api.TriedSizes.model_construct(
        trained=sizes.trained or None,
        suspect=sizes.suspect,
        error=sizes.error,
        held=sizes.held,
        template=sizes.template,
    )


def read_rejections(stored: api.Rejections | None) -> Rejections | None:
    """Read which nodes rejected workers."""
    if stored is None:
        return None
    return Rejections(
        count=stored.count,
        worker=stored.worker,
        retry_at=stored.retry_at.datetime,
        message=stored.message,
        nodes=stored.nodes or (),
    )


def write_rejections(rejections: Rejections | None) -> api.Rejections | None:
    """Write which nodes rejected workers."""
    if rejections is None:
        return None
    return api.Rejections.model_construct(
        count=rejections.count,
        worker=rejections.worker,
        retry_at=Time.of(rejections.retry_at),
        message=rejections.message,
        nodes=rejections.nodes or None,
    )


def _read_joining_workers(stored: api.JoiningWorkers | None) -> JoiningWorkers | None:
    if stored is None:
        return None
    held = tuple(HeldBack(ordered(one.workers), one.world_number) for one in stored.held or ())
    return JoiningWorkers(stored.failures, stored.retry_at.datetime, held)


def _write_joining_workers(joining_workers: JoiningWorkers | None) -> api.JoiningWorkers | None:
    if joining_workers is None:
        return None
    return api.JoiningWorkers.model_construct(
        failures=joining_workers.failures,
        retry_at=Time.of(joining_workers.retry_at),
        held=tuple(
            api.HeldBack.model_construct(workers=WorkerIds.of(one.workers), world_number=one.world)
            for one in joining_workers.held
        )
        or None,
    )
