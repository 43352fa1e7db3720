"""The manifest of a dataset: its shards, their hashes, and how many samples each has.

With it a training can begin without a listing and without opening the shards.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.places.shards import Shard

NAME = "spotrun-data.json"
VERSION = 1

Facts = Mapping[str, Json]
"""A format needs them before it reads a shard: its number of samples, for example."""


@dataclass(frozen=True)
class Manifest:
    """The content of the file."""

    shards: Sequence[Shard]
    facts: Mapping[str, Facts] = field(default_factory=dict)
    """Facts of each shard, by its name."""
    settings: Facts = field(default_factory=dict)
    """Facts that hold for all shards, such as the type of tokens."""


def encoded(manifest: Manifest) -> dict[str, Json]:
    """Return it as JSON."""
    return {
        "version": VERSION,
        "settings": dict(manifest.settings),
        "shards": [
            {
                "name": one.name,
                "bytes": one.num_bytes,
                "sha256": one.sha256,
                "facts": dict(manifest.facts.get(one.name, {})),
            }
            for one in manifest.shards
        ],
    }


def decoded(content: bytes, where: str) -> Manifest:
    """Read it; raises ValueError if it is not a manifest."""
    try:
        read = json.loads(content)
        if read["version"] != VERSION:
            raise ValueError(
                f"{where} has version {read['version']}, but this spotrun reads version {VERSION}: "
                "install a newer spotrun"
            )
        shards = [_shard(one) for one in read["shards"]]
        facts = {one["name"]: dict(one["facts"]) for one in read["shards"]}
        return Manifest(shards, facts, dict(read["settings"]))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{where} is not a manifest of data ({type(error).__name__}: {error}): write it again "
            "with "
            "`spotrun data prepare` or `spotrun data index`"
        ) from error


def _shard(read: Mapping[str, Json]) -> Shard:
    name, num_bytes, digest = read["name"], read["bytes"], read["sha256"]
    if not (isinstance(name, str) and isinstance(num_bytes, int) and isinstance(digest, str)):
        raise TypeError("a shard without name, bytes or sha256")
    if name.startswith("/") or ".." in name.split("/"):
        raise TypeError("a shard outside of the folder")
    return Shard(name, num_bytes, digest, digest)
