"""The changes that a user makes to a job; each returns its result, and prints nothing."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

import msgspec

from spotrun.api.names import ANNOTATION_CHECKPOINT_WANTED, Phase
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.model import Checkpoint, Job
from spotrun.cli.jobs.watching import states_of
from spotrun.cli.text.words import moment
from spotrun.observe.kube_objects import TRAINING_JOBS

OVER = (Phase.SUCCEEDED, Phase.FAILED)
SUSPENDED_SECONDS = 600.0
"""A checkpoint may take 110 s, and the pods their grace period."""


async def suspend(cluster: Cluster, job: Job) -> Job:
    """Ask for no workers, after a checkpoint."""
    _require_alive(job, "suspended")
    return await patched(cluster, job, {"spec": {"suspend": True}})


async def resume(cluster: Cluster, job: Job) -> Job:
    """Remove the user's own suspension of a job; others may remain."""
    _require_alive(job, "resumed")
    return await patched(cluster, job, {"spec": {"suspend": False}})


async def scale(cluster: Cluster, job: Job, wanted: int) -> None:
    """Write workers.replicas, as `kubectl scale` does."""
    _require_alive(job, "scaled")
    workers, name = job.spec.workers, job.metadata.name
    if not workers.min <= wanted <= workers.max:
        raise Refused(
            f"{wanted} workers: workers.min and max allow {workers.min} to {workers.max}. Change "
            f"them with `kubectl edit tjob {name}`"
        )
    await cluster.client.patch(
        TRAINING_JOBS,
        name,
        {"spec": {"replicas": wanted}},
        msgspec.Raw,
        namespace=job.metadata.namespace,
        subresource="scale",
    )


async def checkpoint(cluster: Cluster, job: Job, *, seconds: float) -> Checkpoint:
    """Ask a job to save now, and wait until the checkpoint is durable."""
    _require_alive(job, "saved")
    if job.spec.checkpoint is None:
        raise Refused("spec.checkpoint names no place: give one while the job is suspended")
    if job.status.phase != Phase.RUNNING:
        raise Refused(f"it is {job.status.phase or 'not seen yet'}: only a running job can save")
    # By the API server's clock, as the operator compares it with its own orders.
    asked = cluster.client.clock.now().isoformat().replace("+00:00", "Z")
    note: dict[str, object] = {"metadata": {"annotations": {ANNOTATION_CHECKPOINT_WANTED: asked}}}
    job = await patched(cluster, job, note)

    done = await until(cluster, job, partial(is_saved, asked=asked), "saved", seconds=seconds)
    assert done.status.checkpoint is not None
    return done.status.checkpoint


def is_saved(job: Job, *, asked: str) -> bool:
    """Whether the newest checkpoint was begun after an order that was given for this request.

    One that was being saved by then does not count. If the trainer does not say which orders a
    checkpoint answers, its time counts.
    """
    saved, orders = job.status.checkpoint, job.status.orders
    asked_at, ordered_at = moment(asked), moment(orders.time)
    if saved is None or asked_at is None or ordered_at is None or ordered_at < asked_at:
        return False
    if saved.orders is not None:
        return saved.orders >= orders.checkpoint
    saved_at = moment(saved.time)
    return saved_at is not None and saved_at > ordered_at


async def delete(cluster: Cluster, job: Job) -> None:
    """Delete the job with this UID; its workers end, and its checkpoints stay."""
    await cluster.client.delete(
        TRAINING_JOBS,
        job.metadata.name,
        namespace=job.metadata.namespace,
        uid=job.metadata.uid,
    )


def _require_alive(job: Job, what: str) -> None:
    """Raise Refused where a job is over."""
    if job.status.phase in OVER:
        raise Refused(
            f"it has {job.status.phase.lower()} and cannot be {what}: a new job of the same name "
            "continues from its newest checkpoint"
        )


def is_suspended(job: Job) -> bool:
    """Whether a job is suspended, and none of its workers is left."""
    return job.status.phase == Phase.SUSPENDED and not job.status.workers.running


async def patched(cluster: Cluster, job: Job, patch: dict[str, object]) -> Job:
    """Patch the job that was read, not a later one with the same name."""
    meta = {**_mapping(patch.get("metadata")), "uid": job.metadata.uid}
    return await cluster.client.patch(
        TRAINING_JOBS,
        job.metadata.name,
        {**patch, "metadata": meta},
        Job,
        namespace=job.metadata.namespace,
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


async def until(
    cluster: Cluster,
    job: Job,
    holds: Callable[[Job], bool],
    what: str,
    *,
    seconds: float = SUSPENDED_SECONDS,
) -> Job:
    """Wait for a state of a job; raises Refused if the job does not reach it."""
    last, name = job, job.metadata.name
    try:
        async with (
            asyncio.timeout(seconds),
            aclosing(states_of(cluster, name, job.metadata.uid)) as states,
        ):
            async for now in states:
                last = now
                if holds(now):
                    return now
                if now.status.phase in OVER:
                    raise Refused(f"it has {now.status.phase.lower()} before it was {what}")
    except TimeoutError:
        raise Refused(
            f"it is not {what} after {seconds:g} s: it is {last.status.phase}, "
            f"{last.status.message}. `kubectl tjob why {name}` says more"
        ) from None
    raise Refused(f"it was deleted before it was {what}")
