"""`kubectl tjob profile`: asks one rank to record its next steps, and prints its answer."""

import sys
from argparse import Namespace
from contextlib import aclosing

from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.logs.profiling import FAILED, profiled
from spotrun.cli.jobs.reading import one_job
from spotrun.cli.text.look import printable


def run(chosen: Namespace) -> int:
    """Ask one rank to record its next steps; prints its answers until the profile is done."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        said = profiled(cluster, job, steps=chosen.steps, rank=chosen.rank, seconds=chosen.timeout)
        async with aclosing(said) as sentences:
            print(await anext(sentences), file=sys.stderr)
            async for sentence in sentences:
                has_failed = sentence.startswith(FAILED)
                print(printable(sentence), file=sys.stderr if has_failed else sys.stdout)
                sys.stdout.flush()
                if has_failed:
                    return REFUSED
        return DONE

    return ask(chosen, work)
