"""A TrainingJob from a file, or from what `kubectl get -o yaml` prints."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from spotrun.api.load import load
from spotrun.api.names import TRAINING_JOB
from spotrun.api.trainingjob import TrainingJob

_MOST_CHARACTERS = 4_000_000
"""More than the API server takes of one object."""
_TOLD = ("progress", "pace")
"""What of a status is read: the rest may be of an operator that is newer than this."""


def read(name: str) -> TrainingJob:
    """Read the one TrainingJob in a file, `-` being standard input; a ValueError says why not."""
    found = [one for one in _objects(name, _text(name)) if one.get("kind") == TRAINING_JOB]
    if len(found) != 1:
        names = ", ".join(str((one.get("metadata") or {}).get("name")) for one in found)
        held = f"{len(found)} of them ({names})" if found else "none"
        raise ValueError(f"{_shown(name)} has to hold one {TRAINING_JOB}, and holds {held}")
    job = found[0]
    status = job.get("status")
    if isinstance(status, dict):
        job = {**job, "status": {key: status[key] for key in _TOLD if key in status}}
    try:
        loaded = load(job)
    except ValueError as error:
        raise ValueError(f"{_shown(name)}: {error}") from None
    assert isinstance(loaded, TrainingJob), "its kind says so"
    return loaded


class _Loader(yaml.SafeLoader):
    """As kubectl reads YAML: what looks like a time is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _text(name: str) -> str:
    try:
        if name == "-":
            text = sys.stdin.read(_MOST_CHARACTERS + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 1)
    except OSError as error:
        raise ValueError(f"{_shown(name)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{_shown(name)} is no text: {error}") from error
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"{_shown(name)} is larger than any object of Kubernetes")
    return text


def _objects(name: str, text: str) -> Iterator[dict[str, Any]]:
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{_shown(name)} is not YAML: {error}") from error
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        for one in items if isinstance(items, list) else [document]:
            if isinstance(one, dict):
                yield one


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name
