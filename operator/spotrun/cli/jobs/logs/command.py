"""`kubectl tjob logs`: which workers are read, and how their lines are printed."""

import sys
from argparse import Namespace
from contextlib import aclosing

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.logs.following import Wanted, lines_of, logs_of
from spotrun.cli.jobs.logs.lines import drawn
from spotrun.cli.jobs.watching import unanswered


def run(chosen: Namespace) -> int:
    """Print the logs and, with -f, the lines that are written later."""
    wanted = Wanted(chosen.rank, chosen.all, chosen.tail, not chosen.no_marks)

    async def work(cluster: Cluster) -> int:
        if chosen.follow:
            width = 3 if chosen.all else 0
            async with aclosing(lines_of(cluster, chosen.name, wanted, unanswered)) as lines:
                async for line in lines:
                    print(drawn(line, has_times=False, width=width))
                    sys.stdout.flush()
            return DONE
        logs = await logs_of(cluster, chosen.name, wanted)
        width = max(map(len, logs.sources)) if len(logs.sources) > 1 else 0
        for line in logs.lines:
            print(drawn(line, has_times=chosen.timestamps, width=width))
        return DONE

    return ask(chosen, work)
