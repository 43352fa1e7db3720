"""`kubectl tjob tune`, from flags to exit code."""

import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import yaml

from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.tune.reading import loaded, read_search, search_of
from spotrun.cli.jobs.tune.table import page
from spotrun.cli.text.look import printable


@dataclass(frozen=True)
class Asked:
    """The flags, and the search if it comes from a file."""

    chosen: Namespace
    search: TuningJob | None = None


def understand(chosen: Namespace) -> Asked:
    """Read the flags; raises ValueError for wrong ones."""
    if (chosen.name is None) == (chosen.filename is None):
        raise ValueError("give the NAME of a TuningJob, or a file with -f, and not both")
    if chosen.name is not None and chosen.name.endswith((".yaml", ".yml")):
        raise ValueError(f"{chosen.name} is not the NAME of a TuningJob; read a file with -f")
    return Asked(chosen, _search(_read(chosen.filename)) if chosen.filename is not None else None)


def run(asked: Asked) -> int:
    """Print the search and return the exit code."""
    if asked.search is not None:
        return _shown(asked.search)

    async def work(cluster: Cluster) -> int:
        return _shown(loaded(await read_search(cluster, asked.chosen.name)))

    return ask(asked.chosen, work)


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
        return search_of(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from error
