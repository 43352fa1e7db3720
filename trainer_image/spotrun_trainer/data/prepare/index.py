"""A manifest for existing data: with it a training begins without opening each shard."""

import json
from pathlib import Path
from typing import Any, BinaryIO, cast

from spotrun_trainer.data.cache.entries import hash_of
from spotrun_trainer.data.formats.opening import FORMATS, format_of
from spotrun_trainer.data.formats.token_file import TokenFile
from spotrun_trainer.data.places import Shard, manifest
from spotrun_trainer.data.places.manifest import Manifest, decoded
from spotrun_trainer.data.prepare.journal import replace
from spotrun_trainer.process.commands.progress import Progress


def index(folder: Path, dtype: str | None) -> Manifest:
    """Write the manifest of a folder, and return it; one that `index` wrote before is replaced."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: index data before you upload it")
    path = folder / manifest.NAME
    if path.exists():
        if "tokenizer" in decoded(path.read_bytes(), str(path)).settings:
            raise ValueError(
                f"{folder} was made by `spotrun data prepare`, which has indexed it already"
            )
        path.unlink()
    name = format_of(folder)
    options: dict[str, Any] = {"length": 1, "dtype": dtype} if name == "tokens" else {}
    dataset = FORMATS[name](folder, **options)
    described = dataset.described()
    settings = {"dtype": dataset.dtype} if isinstance(dataset, TokenFile) else {}
    shards = list[Shard]()
    with Progress("indexing", sum(shard.num_bytes for shard, _ in described)) as progress:
        for shard, _ in described:
            with (folder / shard.name).open("rb") as file:
                digest = hash_of(cast("BinaryIO", file))
            shards.append(Shard(shard.name, shard.num_bytes, digest, digest))
            progress.add(shard.num_bytes)
    made = Manifest(shards, {shard.name: facts for shard, facts in described}, settings)
    replace(path, json.dumps(manifest.encoded(made)))
    return made
