"""`kubectl tjob report`: read a job or a search, and write all about it."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.installation import installation
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import NoSuchJob, Refused
from spotrun.cli.jobs.reading import events_of, one_job
from spotrun.cli.jobs.tune.reading import loaded, read_search
from spotrun.cli.report.content import Report, report_on
from spotrun.cli.report.kept import kept_report
from spotrun.cli.report.search import report_on_search
from spotrun.cli.report.writing import WRITERS
from spotrun.observe.kube_objects import TRAINING_JOBS


def run(chosen: Namespace) -> int:
    """Write the report to a file or to standard output."""

    async def work(cluster: Cluster) -> int:
        report = await (_on_search if chosen.search else report_on_named)(cluster, chosen.name)
        text = WRITERS[chosen.output](report)
        if chosen.file is None:
            print(text, end="")
            return DONE
        try:
            await asyncio.to_thread(Path(chosen.file).write_text, text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"{chosen.file} cannot be written: {error.strerror}") from error
        print(f"{chosen.name}: written to {chosen.file}")
        return DONE

    return ask(chosen, work)


async def report_on_named(cluster: Cluster, name: str) -> Report:
    """Report on a job, or on its kept copy if it was deleted; raises NoSuchJob."""
    try:
        job = await one_job(cluster, name)
    except NoSuchJob:
        if (kept := await kept_report(cluster, name)) is None:
            raise
        return kept
    manifest, events, known = await asyncio.gather(
        cluster.client.get(TRAINING_JOBS, name, dict[str, Any], namespace=cluster.namespace),
        events_of(cluster, job),
        installation(cluster),
    )
    return report_on(job, manifest, events, known, cluster.client.clock.now())


async def _on_search(cluster: Cluster, name: str) -> Report:
    manifest = await read_search(cluster, name)
    return report_on_search(loaded(manifest), manifest, cluster.client.clock.now())
