"""Tar shards as in WebDataset: files with the same name up to their first dot are a sample.

The beginning of each file is found once, when a shard is first read on a node; then samples are
read by position, in any order, without unpacking.
"""

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from spotrun_trainer.data.formats.dataset import ShardedDataset
from spotrun_trainer.data.formats.local_files import Form, Source
from spotrun_trainer.data.formats.zstd import UNPACKED
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.places.manifest import Facts

KEY = "__key__"

_Member = tuple[int, int]


class Tar(ShardedDataset):
    """Samples of tar files, each a dict by the ends of its files' names, and "__key__".

    Files that end with txt, json, cls and npy are decoded; others are bytes, for `transform`.
    """

    suffixes = (".tar",)

    @override
    def _describe(self, shard: Shard) -> Facts:
        return {"samples": len(self._index(shard))}

    @override
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        return UNPACKED if shard.name.endswith(".zst") else None

    @override
    def _read(self, shard: Shard, facts: Facts) -> "_Samples":
        mapped = self._files.open(shard, self._form(shard, facts)).mapped()
        return _Samples(memoryview(mapped), self._index(shard))

    def _index(self, shard: Shard) -> Sequence[tuple[str, Mapping[str, _Member]]]:
        form = Form("index of tar 2", _index, of=self._form(shard, {}), keeps_source=True)
        with self._files.open(shard, form).file as file:
            index: Sequence[tuple[str, Mapping[str, _Member]]] = json.loads(file.read())
        return index


class _Samples:
    def __init__(
        self, content: memoryview, index: Sequence[tuple[str, Mapping[str, _Member]]]
    ) -> None:
        self._content, self._index = content, index

    def __getitem__(self, number: int, /) -> dict[str, object]:
        key, members = self._index[number]
        sample: dict[str, object] = {KEY: key}
        for end, (start, size) in members.items():
            sample[end] = decoded(end, bytes(self._content[start : start + size]))
        return sample


def decoded(end: str, content: bytes) -> object:
    """Return what a file holds, by the last part of its name's end."""
    decode = _DECODERS.get(end.rpartition(".")[2])
    return content if decode is None else decode(content)


_DECODERS: Mapping[str, Callable[[bytes], object]] = {
    "txt": bytes.decode,
    "text": bytes.decode,
    "json": json.loads,
    "cls": int,
    "index": int,
    "npy": lambda content: torch.from_numpy(np.load(io.BytesIO(content), allow_pickle=False)),
}


def _index(source: Source, target: Path) -> None:
    where = source.place.where(source.shard.name)
    samples = list[tuple[str, dict[str, _Member]]]()
    try:
        path = source.path()
        with tarfile.open(path, "r:") as tar:
            files = dict[str, _Member]()
            for member in tar:
                _add(samples, files, member)
            _check_end(path, tar.offset)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{where} is not a tar file, or not compressed with zstd: {error}") from (
            error
        )
    target.write_text(json.dumps(samples))


def _add(
    samples: list[tuple[str, dict[str, Any]]], files: dict[str, _Member], member: tarfile.TarInfo
) -> None:
    if member.issparse():
        raise tarfile.ReadError(
            f"{member.name} is sparse: create the archive again without --sparse"
        )
    if member.isfile():
        files[member.name] = (member.offset_data, member.size)
    elif member.islnk():  # a file with the content of an earlier one
        if member.linkname not in files:
            raise tarfile.ReadError(
                f"{member.name} is a link to {member.linkname}, which does not come before it"
            )
        files[member.name] = files[member.linkname]
    else:
        return
    folder, slash, name = member.name.rpartition("/")
    if name.startswith("."):
        return
    base, _, end = name.partition(".")
    key = f"{folder}{slash}{base}"
    if not samples or samples[-1][0] != key or end in samples[-1][1]:
        samples.append((key, {}))
    samples[-1][1][end] = files[member.name]


def _check_end(path: Path, end: int) -> None:
    """Raise ReadError if reading ended too early: tarfile treats a damaged header as the end."""
    with path.open("rb") as file:
        file.seek(end)
        if any(file.read(tarfile.BLOCKSIZE)):
            raise tarfile.ReadError(f"there is no header at byte {end}")
