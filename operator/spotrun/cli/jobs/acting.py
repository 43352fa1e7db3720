"""The verbs that change a job: suspend, resume, scale, checkpoint, stop."""

import asyncio
import sys
from argparse import Namespace

from spotrun.api.names import SuspendedBy
from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.actions import (
    OVER,
    checkpoint,
    delete,
    is_suspended,
    resume,
    scale,
    suspend,
    until,
)
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import one_job
from spotrun.cli.jobs.screens.bill import bill
from spotrun.cli.text.look import look_of, printable
from spotrun.cli.text.prompt import agrees


def run_suspend(chosen: Namespace) -> int:
    """Ask for no workers, after a checkpoint."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        await suspend(cluster, job)
        saved = (
            " after a checkpoint" if job.spec.checkpoint else "; it has no place for checkpoints"
        )
        print(
            f"{chosen.name}: its workers end{saved}. `kubectl tjob resume {chosen.name}` "
            "continues it"
        )
        if chosen.wait:
            await until(cluster, job, is_suspended, "suspended")
            print(f"{chosen.name}: suspended, and costs nothing")
        return DONE

    return ask(chosen, work)


def run_resume(chosen: Namespace) -> int:
    """Let the job continue, and say what else suspends it."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        await resume(cluster, job)
        others = [one for one in job.status.suspended_by if one != SuspendedBy.USER]
        if others:
            print(
                f"{chosen.name}: you no longer suspend it, but {', '.join(others)} still does: "
                f"{printable(job.status.message)}. `kubectl tjob why {chosen.name}` says what to do"
            )
            return REFUSED
        print(f"{chosen.name}: continues. `kubectl tjob watch {chosen.name}` shows it")
        return DONE

    return ask(chosen, work)


def run_scale(chosen: Namespace) -> int:
    """Write workers.replicas, as `kubectl scale` does."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        await scale(cluster, job, chosen.workers)
        print(f"{chosen.name}: {job.spec.workers.replicas} -> {chosen.workers} workers")
        if job.spec.is_auto:
            print(
                "The operator may change the size again, because scaling.mode is Auto: set it to "
                "Manual to keep a size"
            )
        return DONE

    return ask(chosen, work)


def run_checkpoint(chosen: Namespace) -> int:
    """Ask the job to save now, and wait until the checkpoint is durable."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        saved = await checkpoint(cluster, job, seconds=chosen.timeout)
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
        if job.status.phase not in OVER and job.status.phase:
            job = await suspend(cluster, job)
            job = await _suspended_or_over(cluster, job)
        print("\n".join(bill(job, look_of(sys.stdout))))
        await delete(cluster, job)
        kept = job.status.checkpoint
        print(f"{chosen.name}: deleted{f'; {kept.name} stays in its folder' if kept else ''}")
        return DONE

    return ask(chosen, work)


async def _suspended_or_over(cluster: Cluster, job: Job) -> Job:
    def is_still(now: Job) -> bool:
        return is_suspended(now) or now.status.phase in OVER

    try:
        return await until(cluster, job, is_still, "suspended")
    except asyncio.CancelledError:
        name = job.metadata.name
        print(
            f"\n{name}: it is suspended, not deleted. `kubectl tjob resume {name}` continues it, "
            f"`kubectl tjob stop {name}` ends it",
            file=sys.stderr,
        )
        raise
