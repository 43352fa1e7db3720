"""`kubectl tjob tune`, from flags to exit code."""

import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spotrun.api.manifest import load
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import NoSuchJob, Unreadable, is_missing
from spotrun.cli.jobs.tune.table import page
from spotrun.cli.text.look import printable
from spotrun.kube.errors import NotFound
from spotrun.observe.kube_objects import TUNING_JOBS


@dataclass(frozen=True)
class Asked:
    """The flags, and the search where a file has it."""

    chosen: Namespace
    search: TuningJob | None = None


def understand(chosen: Namespace) -> Asked:
    """Read the flags; raises ValueError for wrong ones."""
    if (chosen.name is None) == (chosen.filename is None):
        raise ValueError("give the NAME of a TuningJob, or a file with -f, and not both")
    return Asked(chosen, _search(_read(chosen.filename)) if chosen.filename is not None else None)


def run(asked: Asked) -> int:
    """Print the search and return the exit code."""
    if asked.search is not None:
        return _shown(asked.search)

    async def work(cluster: Cluster) -> int:
        return _shown(await _stored(cluster, asked.chosen.name))

    return ask(asked.chosen, work)


async def _stored(cluster: Cluster, name: str) -> TuningJob:
    """Read a search of the cluster; raises NoSuchJob, and Unreadable for one of another version."""
    try:
        found = await cluster.client.get(
            TUNING_JOBS, name, dict[str, Any], namespace=cluster.namespace
        )
    except NotFound as error:
        if not is_missing(error, name):
            raise
        raise NoSuchJob(
            f"there is no TuningJob {name!r} in namespace {cluster.namespace!r}: "
            "`kubectl get tuningjobs -A` shows all"
        ) from None
    try:
        return _loaded(found)
    except ValueError as error:
        raise Unreadable(str(error)) from error


def _shown(search: TuningJob) -> int:
    print("\n".join(map(printable, page(search).split("\n"))))
    return DONE


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error


def _search(text: str) -> TuningJob:
    try:
        return _loaded(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from error


def _loaded(found: object) -> TuningJob:
    search = load(found) if isinstance(found, dict) else None
    if not isinstance(search, TuningJob):
        raise ValueError("this is no TuningJob: give one with -f, or its NAME")  # noqa: TRY004
    return search
