"""`kubectl tjob tune`, from flags to exit code."""

import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spotrun.api.manifest import load
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.jobs.tune.table import page
from spotrun.cli.text.look import printable

SHOWN, NOT_FOUND = 0, 1


@dataclass(frozen=True)
class Asked:
    """The search to show, or the question to kubectl for it."""

    search: TuningJob | None = None
    kubectl: tuple[str, ...] = ()


def understand(chosen: Namespace) -> Asked:
    """Read the flags; raises ValueError for wrong ones."""
    if (chosen.name is None) == (chosen.filename is None):
        raise ValueError("give the NAME of a TuningJob, or a file with -f, and not both")
    if chosen.filename is not None:
        return Asked(_search(_read(chosen.filename)))
    flags = (("--namespace", chosen.namespace), ("--context", chosen.context))
    given = [f"{flag}={value}" for flag, value in flags if value is not None]
    return Asked(
        kubectl=("kubectl", "get", "tuningjobs.spotrun.dev", chosen.name, "-o", "yaml", *given)
    )


def run(asked: Asked) -> int:
    """Print the search and return the exit code."""
    search = asked.search
    if search is None:
        try:
            answer = subprocess.run(asked.kubectl, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            print("kubectl tjob tune: kubectl is not on PATH: install it", file=sys.stderr)
            return NOT_FOUND
        if answer.returncode:
            print(f"kubectl tjob tune: {answer.stderr.strip()}", file=sys.stderr)
            return NOT_FOUND
        try:
            search = _search(answer.stdout)
        except ValueError as error:
            print(
                f"kubectl tjob tune: the search cannot be read ({printable(str(error))}): its "
                "operator may be of another version than this command",
                file=sys.stderr,
            )
            return NOT_FOUND
    print("\n".join(map(printable, page(search).split("\n"))))
    return SHOWN


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error


def _search(text: str) -> TuningJob:
    try:
        found: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from error
    search = load(found) if isinstance(found, dict) else None
    if not isinstance(search, TuningJob):
        raise ValueError("this is no TuningJob: give one with -f, or its NAME")  # noqa: TRY004
    return search
