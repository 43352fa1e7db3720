"""`kubectl tjob report`: read a job, and write all about it."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.installation import installation
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.reading import events_of, one_job
from spotrun.cli.report.content import report_on
from spotrun.cli.report.writing import WRITERS
from spotrun.observe.kube_objects import TRAINING_JOBS


def run(chosen: Namespace) -> int:
    """Write the report to a file or to standard output."""

    async def work(cluster: Cluster) -> int:
        job = await one_job(cluster, chosen.name)
        manifest, events, known = await asyncio.gather(
            cluster.client.get(
                TRAINING_JOBS, chosen.name, dict[str, Any], namespace=cluster.namespace
            ),
            events_of(cluster, job),
            installation(cluster),
        )
        now = cluster.client.clock.now()
        text = WRITERS[chosen.output](report_on(job, manifest, events, known, now))
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
