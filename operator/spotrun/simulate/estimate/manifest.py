"""A TrainingJob, or a CapacityPool, from a file, or from the output of `kubectl get -o yaml`."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from spotrun.api.capacitypool import CapacityPool
from spotrun.api.manifest import load
from spotrun.api.names import CAPACITY_POOL, TRAINING_JOB
from spotrun.api.trainingjob import TrainingJob

_MOST_CHARACTERS = 4_000_000
"""More bytes than the API server accepts for one object."""
_KNOWN_FIELDS = ("progress", "pace", "batchChange")
_KNOWN_INSIDE = {"cost": ("usd", "storage"), "accumulators": ("storage",)}
"""The fields of a status that are read: the others may come from a newer operator."""
_READ_OTHERWISE = ("int", "float", "timestamp", "value")
"""The types that PyYAML reads from texts but kubectl does not, such as `22:00`, a number in base
60."""
_INTEGER = "[-+]?(0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)$"
_FLOAT = (
    r"([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
)
"""Both as in PyYAML, but without base 60."""


def read(name: str) -> TrainingJob:
    """Read the one TrainingJob in a file (`-`: standard input); raises ValueError with why not."""
    job = _the_one(name, TRAINING_JOB)
    status = job.get("status")
    if isinstance(status, dict):
        job = {**job, "status": _known_status(status)}
    loaded = _loaded(name, job)
    assert isinstance(loaded, TrainingJob), "its kind was checked"
    return loaded


def read_pool(name: str) -> CapacityPool:
    """Read the one CapacityPool in a file in the same way; its status is ignored."""
    pool = _the_one(name, CAPACITY_POOL)
    loaded = _loaded(name, {key: value for key, value in pool.items() if key != "status"})
    assert isinstance(loaded, CapacityPool), "its kind was checked"
    return loaded


def _the_one(name: str, kind: str) -> dict[str, Any]:
    found = [one for one in _objects(name, _text(name)) if one.get("kind") == kind]
    if len(found) != 1:
        names = ", ".join(str(_name(one)) for one in found)
        held = f"{len(found)} of them ({names})" if found else "none"
        raise ValueError(f"{_shown(name)} must contain one {kind}, but contains {held}")
    return found[0]


def _loaded(name: str, manifest: dict[str, Any]) -> object:
    try:
        return load(manifest)
    except ValueError as error:
        raise ValueError(f"{_shown(name)}: {error}") from None


class _Loader(yaml.SafeLoader):
    """A YAML loader like kubectl's: a time is read as a text, and so is `=`."""


_Loader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0].rpartition(":")[2] not in _READ_OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(_INTEGER), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_FLOAT), list("-+.0123456789"))


def _name(one: dict[str, Any]) -> object:
    metadata = one.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _known_status(status: dict[str, Any]) -> dict[str, Any]:
    known = _only(status, (*_KNOWN_FIELDS, *_KNOWN_INSIDE))
    inside = {
        key: _only(known[key], names)
        for key, names in _KNOWN_INSIDE.items()
        if isinstance(known.get(key), dict)
    }
    return {**known, **inside}


def _only(fields: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _text(name: str) -> str:
    if name == "-" and sys.stdin is None:
        raise ValueError(f"{_shown(name)} is closed: pipe the job into it, or name a file")
    try:
        if name == "-":
            text = sys.stdin.read(_MOST_CHARACTERS + 1)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 1)
    except OSError as error:
        raise ValueError(f"{_shown(name)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{_shown(name)} is not text: {error}") from error
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"{_shown(name)} is larger than any Kubernetes object")
    return text


def _objects(name: str, text: str) -> Iterator[dict[str, Any]]:
    for document in _documents(name, text):
        items = document.get("items") if isinstance(document, dict) else None
        for one in items if isinstance(items, list) else [document]:
            if isinstance(one, dict):
                yield one


def _documents(name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return [json.loads(text)]  # JSON may be indented with tabs, YAML may not
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{_shown(name)} is not YAML: {error}") from error


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name
