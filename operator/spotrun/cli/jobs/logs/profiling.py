"""A profile of a running job: an annotation asks for it, and the worker's log has the answer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from spotrun.api.names import ANNOTATION_PROFILE_WANTED, Phase
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.actions import patched
from spotrun.cli.jobs.logs.following import the_pod
from spotrun.cli.jobs.logs.reading import follow
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import one_job, pods_of
from spotrun.wire import Profile, profile_text

FAILED = "failed: "
"""The last sentence of a profile that could not be made begins with this."""
_DONE = "done"
_TAIL = 1000
"""Earlier lines to read: the answer may begin before the log is opened."""
_NO_ANSWER = (
    "a script without `Run` does not answer such a request, and others begin at their next step; "
    "`kubectl tjob why {name}` says whether it trains"
)


async def profiled(
    cluster: Cluster, job: Job, *, steps: int, rank: int, seconds: float
) -> AsyncGenerator[str, None]:
    """Ask for a profile, and yield the worker's answers; raises Refused if none comes.

    The first sentence says that the profile was requested.
    """
    name = job.metadata.name
    if job.status.phase != Phase.RUNNING:
        state = job.status.phase or "not seen yet"
        raise Refused(f"the job is {state}: only a running job has steps")
    pod = the_pod(job, await pods_of(cluster, name), rank)
    asked = cluster.client.clock.now().isoformat().replace("+00:00", "Z")
    order = profile_text(Profile(asked, steps, rank))
    await patched(
        cluster, job, {"metadata": {"annotations": {str(ANNOTATION_PROFILE_WANTED): order}}}
    )
    yield f"{name}: rank {rank} is asked for {steps} steps"
    last = "no answer came"
    try:
        async with asyncio.timeout(seconds), aclosing(follow(cluster, pod, _TAIL)) as lines:
            async for sentence in answers(lines, asked):
                if sentence == _DONE:
                    return
                last = f"the last answer was: {sentence}"
                yield sentence
                if sentence.startswith(FAILED):
                    return
    except TimeoutError:
        await one_job(cluster, name)  # raises if the cluster does not answer or the job is deleted
        why = _NO_ANSWER.format(name=name)
        raise Refused(f"the profile is not done after {seconds:g} s, {last}: {why}") from None
    raise Refused(f"the log of {pod.metadata.name} ended before the profile did: {last}")


async def answers(lines: AsyncIterator[str], asked: str) -> AsyncIterator[str]:
    """Yield the sentences of a log that answer a request."""
    mark = f"profile {asked}: "
    async for line in lines:
        if mark in line:
            yield line.partition(mark)[2]
