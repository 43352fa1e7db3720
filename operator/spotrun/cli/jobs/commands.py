"""The verbs that only read: what they read, and how they print it."""

import asyncio
import csv
import io
import sys
from argparse import Namespace

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.output import written
from spotrun.cli.jobs.reading import all_jobs, everything_of, one_job, pools
from spotrun.cli.jobs.screens.bill import bill, sums_by, sums_table
from spotrun.cli.jobs.screens.detail import detail
from spotrun.cli.jobs.screens.listing import as_data, in_order, listing
from spotrun.cli.jobs.screens.reasons import answers, why
from spotrun.cli.text.look import look_of


def run_list(chosen: Namespace) -> int:
    """Print the jobs of a namespace, or of all."""

    async def work(cluster: Cluster) -> int:
        jobs = await all_jobs(cluster)
        look = look_of(sys.stdout)
        if chosen.output:
            ordered = in_order(jobs, chosen.sort)
            rows = [as_data(job, look.now) for job in ordered]
            print(written(rows, chosen.output, [job.metadata.name for job in ordered]))
        elif not jobs:
            where = "in any namespace" if cluster.is_everywhere else f"in {cluster.namespace}"
            print(f"No TrainingJobs {where}. `kubectl tjob run` starts one.", file=sys.stderr)
        else:
            lines = listing(jobs, chosen.sort, look, is_everywhere=cluster.is_everywhere)
            print("\n".join(lines))
        return DONE

    return ask(chosen, work)


def run_show(chosen: Namespace) -> int:
    """Print one job on one screen."""

    async def work(cluster: Cluster) -> int:
        facts = await everything_of(cluster, chosen.name)
        look = look_of(sys.stdout)
        if chosen.output:
            print(written(as_data(facts.job, look.now), chosen.output, [chosen.name]))
        else:
            print("\n".join(detail(facts, look)))
        return DONE

    return ask(chosen, work)


def run_why(chosen: Namespace) -> int:
    """Print why a job has its state, size, nodes and price."""

    async def work(cluster: Cluster) -> int:
        job, found = await asyncio.gather(one_job(cluster, chosen.name), pools(cluster))
        look = look_of(sys.stdout)
        if chosen.output:
            data = {one.question: list(one.sentences) for one in answers(job, found, look)}
            print(written(data, chosen.output, [chosen.name]))
        else:
            print("\n".join(why(job, found, look)))
        return DONE

    return ask(chosen, work)


def run_cost(chosen: Namespace) -> int:
    """Print what one job has cost, or what many have."""

    async def work(cluster: Cluster) -> int:
        look = look_of(sys.stdout)
        jobs = [await one_job(cluster, chosen.name)] if chosen.name else await all_jobs(cluster)
        if chosen.name and not chosen.output:
            print("\n".join(bill(jobs[0], look)))
            return DONE
        sums = sums_by(jobs, chosen.by)
        if chosen.output == "csv":
            print(_as_csv(sums), end="")
        elif chosen.output:
            print(written(sums, chosen.output, []))
        else:
            print("\n".join(sums_table(sums, chosen.by, look)))
        return DONE

    return ask(chosen, work)


def _as_csv(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
