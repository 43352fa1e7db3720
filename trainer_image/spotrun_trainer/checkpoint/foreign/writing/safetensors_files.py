"""Safetensors: one file, or several with an index, as Hugging Face's libraries read them.

Weights that are tied are written once, under the first of their names, as `save_pretrained` and
`safetensors.torch.save_model` do. The header's metadata has the other names.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from spotrun_trainer.checkpoint.foreign.chosen import Chosen
from spotrun_trainer.checkpoint.foreign.source import PIECE_BYTES, contents
from spotrun_trainer.checkpoint.format.codes import CODES
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.format.writer import header
from spotrun_trainer.state.flatten import Spec

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FILES = re.compile(r"model(-[0-9]{5,}-of-[0-9]{5,})?\.safetensors|model\.safetensors\.index\.json")
"""The names of the files in a folder, for any number of files."""


def write_file(path: Path, chosen: Chosen, told: Callable[[int], object]) -> None:
    """Write all tensors into one file."""
    names, ties = own_and_tied(chosen.tensors)
    _check(chosen, names)
    _write(path, chosen, names, ties, told)


def write_folder(
    folder: Path, chosen: Chosen, shard_bytes: int | None, told: Callable[[int], object]
) -> None:
    """Write files of at most `shard_bytes`, or one file; a larger tensor gets its own file."""
    names, ties = own_and_tied(chosen.tensors)
    _check(chosen, names)
    sizes = {name: _bytes(chosen.spec(path)) for name, path in names.items()}
    shards = shards_of(sizes, shard_bytes)
    files = {file_name(number, len(shards)): one for number, one in enumerate(shards, start=1)}
    for file, some in files.items():
        _write(folder / file, chosen, {name: names[name] for name in some}, ties, told)
    if len(shards) > 1:
        index = {
            "metadata": {"total_size": sum(sizes.values())},
            "weight_map": {name: file for file, some in files.items() for name in some},
        }
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def own_and_tied(tensors: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first names of tensors with their paths, and other names with the first name."""
    first = dict[str, str]()
    for name, path in tensors.items():
        first.setdefault(path, name)
    own = {name: path for path, name in first.items()}
    return own, {name: first[path] for name, path in tensors.items() if name not in own}


def shards_of(sizes: Mapping[str, int], most_bytes: int | None) -> list[list[str]]:
    """Divide tensors, in their order, among files of at most `most_bytes`."""
    shards, left = list[list[str]]([[]]), most_bytes
    for name, size in sizes.items():
        if left is not None and most_bytes is not None:
            if size > left and shards[-1]:
                shards.append([])
                left = most_bytes
            left -= size
        shards[-1].append(name)
    return shards


def file_name(number: int, count: int) -> str:
    """Return the name of a file, as Hugging Face numbers them."""
    return WHOLE if count == 1 else f"model-{number:05d}-of-{count:05d}.safetensors"


def _write(
    path: Path,
    chosen: Chosen,
    names: Mapping[str, str],
    ties: Mapping[str, str],
    told: Callable[[int], object],
) -> None:
    specs = {name: chosen.spec(at) for name, at in names.items()}
    order = sorted(specs, key=lambda name: -specs[name].itemsize)  # so that each tensor is aligned
    notes = {name: first for name, first in ties.items() if first in names}
    buffer = torch.empty(PIECE_BYTES, dtype=torch.uint8)
    with path.open("xb", buffering=0) as stream:
        stream.write(header(_slices(order, specs), specs, notes))
        for name in order:
            for piece in contents(chosen.saved, names[name], buffer):
                write_all(stream.write, piece)
                told(len(piece))


def write_all(write: Callable[[memoryview], int | None], content: memoryview) -> None:
    """Write the whole content: one call writes 2 GB at most."""
    while content:
        content = content[write(content) or 0 :]


def _slices(names: Sequence[str], specs: Mapping[str, Spec]) -> list[Slice]:
    return [Slice(name, 0, specs[name].numel) for name in names]


def _check(chosen: Chosen, names: Mapping[str, str]) -> None:
    if not names:
        raise ValueError("the model has no tensors")
    for name, path in names.items():
        dtype = chosen.spec(path).dtype
        if dtype not in CODES:
            raise ValueError(
                f"{name} is of type {dtype}, which safetensors does not have: choose --format "
                "torch or dcp"
            )


def _bytes(spec: Spec) -> int:
    return spec.numel * spec.itemsize
