"""The verbs that change a job: suspend, resume, scale, checkpoint, stop."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from spotrun.api.names import ANNOTATION_CHECKPOINT_WANTED, Phase, SuspendedBy
from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import one_job
from spotrun.cli.jobs.screens.bill import bill
from spotrun.cli.jobs.watching import states_of
from spotrun.cli.text.look import look_of, printable
from spotrun.cli.text.prompt import agrees
from spotrun.observe.kube_objects import TRAINING_JOBS

_OVER = (Phase.SUCCEEDED, Phase.FAILED)
_SUSPENDED_SECONDS = 600.0
"""A checkpoint may take 110 s, and the pods their grace period."""


def run_suspend(chosen: Namespace) -> int:
    """Ask for no workers, after a checkpoint."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        _require_alive(job, "suspended")
        await _patch(cluster, job, {"spec": {"suspend": True}})
        saved = (
            " after a checkpoint" if job.spec.checkpoint else "; it has no place for checkpoints"
        )
        print(f"{chosen.name}: its workers go{saved}. `kubectl tjob resume {chosen.name}` goes on")
        if chosen.wait:
            await _until(cluster, job, _is_suspended, "suspended")
            print(f"{chosen.name}: suspended, and costs nothing")
        return DONE

    return ask(chosen, work)


def run_resume(chosen: Namespace) -> int:
    """Let the job go on, and say who else holds it."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        _require_alive(job, "resumed")
        others = [one for one in job.status.suspended_by if one != SuspendedBy.USER]
        await _patch(cluster, job, {"spec": {"suspend": False}})
        if others:
            print(
                f"{chosen.name}: you hold it no longer, but {', '.join(others)} still does: "
                f"{printable(job.status.message)}. `kubectl tjob why {chosen.name}` says what to do"
            )
            return REFUSED
        print(f"{chosen.name}: goes on. `kubectl tjob watch {chosen.name}` shows how")
        return DONE

    return ask(chosen, work)


def run_scale(chosen: Namespace) -> int:
    """Write workers.replicas, as `kubectl scale` does."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        _require_alive(job, "scaled")
        workers, wanted = job.spec.workers, chosen.workers
        allowed = f"workers.min and max allow {workers.min} to {workers.max}"
        if not workers.min <= wanted <= workers.max:
            raise Refused(
                f"{wanted} workers: {allowed}. Change them with `kubectl edit tjob {chosen.name}`"
            )
        await cluster.client.patch(
            TRAINING_JOBS,
            chosen.name,
            {"spec": {"replicas": wanted}},
            msgspec.Raw,
            namespace=job.metadata.namespace,
            subresource="scale",
        )
        print(f"{chosen.name}: {workers.replicas} -> {wanted} workers")
        if job.spec.is_auto:
            print(
                "The operator goes on from there, for scaling.mode is Auto: set it to Manual for a "
                "size that stays"
            )
        return DONE

    return ask(chosen, work)


def run_checkpoint(chosen: Namespace) -> int:
    """Have the job save now, and wait until that is durable."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        _require_alive(job, "saved")
        if job.spec.checkpoint is None:
            raise Refused("spec.checkpoint names no place: give one while the job is suspended")
        if job.status.phase != Phase.RUNNING:
            raise Refused(f"it is {job.status.phase or 'not seen yet'}: only who trains can save")
        before = job.status.checkpoint
        # By the API server's clock, as the operator compares it with its own orders.
        asked = cluster.client.clock.now().isoformat().replace("+00:00", "Z")
        note: dict[str, object] = {
            "metadata": {"annotations": {ANNOTATION_CHECKPOINT_WANTED: asked}}
        }
        job = await _patch(cluster, job, note)

        def is_saved(now: Job) -> bool:
            saved = now.status.checkpoint
            return saved is not None and saved != before

        done = await _until(cluster, job, is_saved, "saved", seconds=chosen.timeout)
        saved = done.status.checkpoint
        assert saved is not None
        print(f"{chosen.name}: saved step {saved.step:,} as {saved.name}")
        return DONE

    return ask(chosen, work)


def run_stop(chosen: Namespace) -> int:
    """End a job for good: save, take its workers away, print its bill, delete it."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        if not chosen.yes and not agrees(f"Save, end and delete {chosen.name}?"):
            print(f"{chosen.name}: left as it is", file=sys.stderr)
            return REFUSED
        if job.status.phase not in _OVER and job.status.phase:
            job = await _patch(cluster, job, {"spec": {"suspend": True}})
            job = await _suspended_or_over(cluster, job)
        print("\n".join(bill(job, look_of(sys.stdout))))
        await cluster.client.delete(
            TRAINING_JOBS,
            chosen.name,
            namespace=job.metadata.namespace,
            uid=job.metadata.uid,
        )
        kept = job.status.checkpoint
        print(f"{chosen.name}: deleted{f'; {kept.name} stays in its folder' if kept else ''}")
        return DONE

    return ask(chosen, work)


async def _suspended_or_over(cluster: Cluster, job: Job) -> Job:
    def is_still(now: Job) -> bool:
        return _is_suspended(now) or now.status.phase in _OVER

    try:
        return await _until(cluster, job, is_still, "suspended")
    except asyncio.CancelledError:
        name = job.metadata.name
        print(
            f"\n{name}: it is suspended and not deleted. `kubectl tjob resume {name}` goes on, "
            f"`kubectl tjob stop {name}` ends it",
            file=sys.stderr,
        )
        raise


def _require_alive(job: Job, what: str) -> None:
    if job.status.phase in _OVER:
        raise Refused(
            f"it has {job.status.phase.lower()} and cannot be {what}: a new job of the same name "
            "goes on from its newest checkpoint"
        )


def _is_suspended(job: Job) -> bool:
    return job.status.phase == Phase.SUSPENDED and not job.status.workers.running


async def _patch(cluster: Cluster, job: Job, patch: dict[str, object]) -> Job:
    """Patch the very job that was looked at, not one that was made anew under its name."""
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


async def _until(
    cluster: Cluster,
    job: Job,
    holds: Callable[[Job], bool],
    what: str,
    *,
    seconds: float = _SUSPENDED_SECONDS,
) -> Job:
    """Wait for a state of the job; raises Refused when it does not come."""
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
                if now.status.phase in _OVER:
                    raise Refused(f"it has {now.status.phase.lower()} before it was {what}")
    except TimeoutError:
        raise Refused(
            f"it is not {what} after {seconds:g} s: it is {last.status.phase}, "
            f"{last.status.message}. `kubectl tjob why {name}` says more"
        ) from None
    raise Refused(f"it was deleted before it was {what}")
