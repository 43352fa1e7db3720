"""The number of failing scripts, with usual mistakes, whose job status names the first cause.

Each script of `tests/scripts/failing` is a separate job with two workers on process nodes, under
the operator's own code. The message of the failed job must name the rank that failed first, how it
ended, and its output, as the script's own docstring expects.

    failures_named   of all scripts; missing ones are listed with the actual message

Run as `.venv/bin/python bench/scripts_failures.py [--quick] [--only segfault --only abort]`.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.operator_bench import say
from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import Place, open_telling_place
from tests.support.cluster.operator_world import install_crds
from tests.support.processes.failing_scripts import FailingScript, failing_scripts

QUICK = ("one_rank_raises", "exits_silently", "segfault")
"""An exception, an exit and a signal, each on one rank only."""
AT_ONCE = 3
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three of them")
    parser.add_argument("--only", action="append", default=[], help="a script's name")
    arguments = parser.parse_args()
    wanted = arguments.only or (QUICK if arguments.quick else None)
    scripts = [one for one in failing_scripts() if wanted is None or one.name in wanted]
    with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
        Path(scratch).chmod(0o755)  # for a script that becomes another user
        install_crds(cluster)
        messages = asyncio.run(run_all(cluster, Path(scratch), scripts))
    missing = {
        one.name: messages[one.name] for one in scripts if not one.is_named_in(messages[one.name])
    }
    say(
        "failures_named", len(scripts) - len(missing), "scripts", of=len(scripts), missing=missing
    )  # fmt: skip


async def run_all(
    cluster: Cluster, folder: Path, scripts: Sequence[FailingScript]
) -> dict[str, str]:
    """Run them, a few at a time, and return the final status message of each."""
    said: dict[str, str] = {}
    async with open_telling_place(cluster, folder) as place:
        await place.add_nodes(*(f"n{number}" for number in range(AT_ONCE * WORKERS)))
        async with place.operator():
            for first in range(0, len(scripts), AT_ONCE):
                some = scripts[first : first + AT_ONCE]
                found = await asyncio.gather(*(message_of(place, script) for script in some))
                said |= {one.name: words for one, words in zip(some, found, strict=True)}
    return said


async def message_of(place: Place, script: FailingScript) -> str:
    """Run a script as a job, and return the message of its failure."""
    name = script.name.replace("_", "-")
    await place.start(
        script.copy_to(place.folder), name=name, workers=WORKERS,
        sizes={"processes": script.processes}, failures={"maxRestarts": 0},
    )  # fmt: skip
    job = await place.until_job(lambda it: it.get("phase") in {"Failed", "Succeeded"}, name)
    await place.kube.delete(place.jobs(name))
    message = str(job["status"]["message"])
    print(f"{script.name}: {message}", file=sys.stderr)
    return message


if __name__ == "__main__":
    main()
