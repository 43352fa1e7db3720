"""`kubectl tjob profile`: asks the running job, and reads the answer in the worker's log."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from spotrun.api.names import ANNOTATION_PROFILE_WANTED, Phase
from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.actions import patched
from spotrun.cli.jobs.logs.following import the_pod
from spotrun.cli.jobs.logs.reading import follow
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import one_job, pods_of
from spotrun.cli.text.look import printable
from spotrun.observe.kube_objects import PodObject
from spotrun.wire import Profile, profile_text

_TAIL = 1000
"""The lines before: the first of the answer may be there before the log is read."""
_FAILED = "failed: "
_NO_ANSWER = (
    "a script without `Run` follows no such order, and one that does begins with its next step; "
    "`kubectl tjob why {name}` says whether it trains"
)


def run(chosen: Namespace) -> int:
    """Have one rank record its next steps; prints what it says until that is done."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        pod = the_pod(job, await pods_of(cluster, chosen.name), chosen.rank)
        is_done = False
        async with aclosing(_said(cluster, job, pod, chosen)) as sentences:
            async for sentence in sentences:
                is_done = not sentence.startswith(_FAILED)
                if sentence != "done":
                    print(printable(sentence), file=sys.stdout if is_done else sys.stderr)
                    sys.stdout.flush()
        return DONE if is_done else REFUSED

    return ask(chosen, work)


async def _said(
    cluster: Cluster, job: Job, pod: PodObject, chosen: Namespace
) -> AsyncGenerator[str, None]:
    """Ask, and yield what the worker says of this order; raises Refused without an answer."""
    if job.status.phase != Phase.RUNNING:
        raise Refused(f"it is {job.status.phase or 'not seen yet'}: only who trains has steps")
    asked = cluster.client.clock.now().isoformat().replace("+00:00", "Z")
    order = profile_text(Profile(asked, chosen.steps, chosen.rank))
    await patched(
        cluster, job, {"metadata": {"annotations": {str(ANNOTATION_PROFILE_WANTED): order}}}
    )
    print(f"{chosen.name}: rank {chosen.rank} is asked for {chosen.steps} steps", file=sys.stderr)
    last = "no answer came"
    try:
        async with asyncio.timeout(chosen.timeout), aclosing(follow(cluster, pod, _TAIL)) as lines:
            async for sentence in answers(lines, asked):
                last = f"the last that came was: {sentence}"
                yield sentence
                if sentence == "done" or sentence.startswith(_FAILED):
                    return
    except TimeoutError:
        why = _NO_ANSWER.format(name=chosen.name)
        raise Refused(f"it is not done after {chosen.timeout} s, {last}: {why}") from None
    raise Refused(f"the log of {pod.metadata.name} ended before the profile did: {last}")


async def answers(lines: AsyncIterator[str], asked: str) -> AsyncIterator[str]:
    """Yield the sentences of a log that answer an order."""
    mark = f"profile {asked}: "
    async for line in lines:
        if mark in line:
            yield line.partition(mark)[2]
