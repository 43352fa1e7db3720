"""A job as it changes: each new state of it, until it is deleted or the caller stops."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import NoSuchJob
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import one_job
from spotrun.kube.clock import boot_seconds
from spotrun.kube.errors import Gone, Retryable, Silent
from spotrun.observe.kube_objects import TRAINING_JOBS

_SILENCE_SECONDS = 330.0
"""The API server ends each watch within this time: a longer silence is a dead connection."""
_PAUSE_SECONDS = 1.0
_PATIENCE_SECONDS = 600.0
"""An API server that is upgraded is away for minutes."""
_FAILURES_TO_SAY = 2
"""A watch that breaks is not reported if the next request is answered."""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


def unanswered() -> None:
    """Print that the cluster does not answer, for a user who waits for news."""
    minutes = f"{_PATIENCE_SECONDS / 60:.0f} minutes"
    print(
        f"the cluster does not answer: trying again for {minutes}; Ctrl-C ends this",
        file=sys.stderr,
        flush=True,
    )


async def states_of(
    cluster: Cluster, name: str, uid: str = "", away: Callable[[], None] = lambda: None
) -> AsyncGenerator[Job, None]:
    """Yield the job, and each later state of it; ends when it is deleted.

    A later job with the same name is another one. Once the cluster has answered, it may stop
    answering for a while; `away` is called when that begins.
    """
    answered_at, failures = float("-inf"), 0
    while True:
        try:
            job = await one_job(cluster, name)
            if uid and job.metadata.uid != uid:
                return
            uid, answered_at, failures = job.metadata.uid, boot_seconds(), 0
            yield job
            async with aclosing(_changes(cluster, job)) as changes:
                async for changed in changes:
                    if changed is None:
                        return
                    answered_at = boot_seconds()
                    yield changed
            answered_at = boot_seconds()
        except NoSuchJob:
            if uid:
                return
            raise
        except (Gone, Retryable, Silent):  # the next state includes what a watch has missed
            if boot_seconds() - answered_at > _PATIENCE_SECONDS:
                raise
            failures += 1
            if failures == _FAILURES_TO_SAY:
                away()
        await asyncio.sleep(_PAUSE_SECONDS)


async def _changes(cluster: Cluster, job: Job) -> AsyncGenerator[Job | None, None]:
    """Yield the states that one watch reports; None when the job is deleted."""
    params = {
        "watch": "true",
        "fieldSelector": f"metadata.name={job.metadata.name}",
        "resourceVersion": job.metadata.resource_version,
        "timeoutSeconds": "300",
    }
    path = TRAINING_JOBS.path(job.metadata.namespace)
    stream = cluster.transport.stream(path, params=params, silence_seconds=_SILENCE_SECONDS)
    async with aclosing(stream) as batches:
        async for lines in batches:
            for line in lines:
                if not line:
                    continue
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    return
                if event.type == "DELETED":
                    yield None
                else:
                    yield msgspec.json.decode(event.object, type=Job)
