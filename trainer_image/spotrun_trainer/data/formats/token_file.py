"""Consecutive tokens: files of 16 or 32 bit numbers, of which each sample is a window."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from spotrun_trainer.data.formats.dataset import WINDOW, Reader, ShardedDataset, Transform
from spotrun_trainer.data.formats.local_files import Form
from spotrun_trainer.data.formats.zstd import UNPACKED, FramedFile, framed, unpacked_bytes
from spotrun_trainer.data.places import Shard
from spotrun_trainer.data.places.manifest import Facts

DTYPES = ("uint16", "uint32")


class TokenFile(ShardedDataset):
    """Windows of tokens, each a tensor of int64.

        tokens = TokenFile("s3://bucket/tokens", length=1025, stride=1024)

    length      the tokens of a sample
    stride      the tokens from the start of one sample to the next; default: length
    dtype       "uint16" or "uint32"; default: what `spotrun data prepare` has noted, else uint32
                for files that end with .u32, and uint16 for others
    header      the bytes before the first token of each file
    unpack      False: shards that are compressed in frames stay so on the disk, and are unpacked
                frame by frame at each read, which is much slower

    Tokens at the end of a shard that do not fill a window are left out.
    """

    suffixes = (".bin", ".tokens", ".u16", ".u32")

    def __init__(
        self,
        where: str | Path,
        *,
        length: int,
        stride: int | None = None,
        dtype: str | None = None,
        header: int = 0,
        unpack: bool = True,
        window: int | None = WINDOW,
        transform: Transform | None = None,
    ) -> None:
        if length < 1 or (stride is not None and stride < 1) or header < 0:
            raise ValueError("length and stride must be numbers of tokens, at least 1")
        if dtype not in {None, *DTYPES}:
            raise ValueError(f"dtype={dtype!r}: give one of {', '.join(DTYPES)}")
        self._tokens, self._stride = length, stride or length
        self._named_dtype, self._header, self._unpack = dtype, header, unpack
        super().__init__(where, window=window, transform=transform)

    @override
    def _configure(self) -> None:
        noted = self.settings.get("dtype")
        if noted and self._named_dtype not in {None, noted}:
            raise ValueError(
                f"dtype={self._named_dtype!r}, but {self.where} was prepared with {noted}: leave "
                "dtype= out"
            )
        self.dtype = str(self._named_dtype or noted or self._dtype_by_names())
        self._dtype = np.dtype(self.dtype).newbyteorder("<")

    def _dtype_by_names(self) -> str:
        are_wide = {shard.name.removesuffix(".zst").endswith(".u32") for shard in self._shards}
        if len(are_wide) > 1:
            raise ValueError(
                f"only some files in {self.where} end with .u32: open tokens of 16 and of 32 bits "
                "as two datasets, and combine them with mix(...)"
            )
        return DTYPES[True in are_wide]

    @override
    def _describe(self, shard: Shard) -> Facts:
        if not shard.name.endswith(".zst"):
            return {"bytes": shard.num_bytes}
        return {"bytes": unpacked_bytes(self._files, shard, in_frames=not self._unpack)}

    @override
    def _length(self, shard: Shard, facts: Facts) -> int:
        num_bytes = cast("int", facts["bytes"]) - self._header
        if num_bytes < 0 or num_bytes % self._dtype.itemsize:
            raise ValueError(
                f"{self._named(shard)} has {facts['bytes']} bytes, which is not a whole number of "
                f"{self._dtype.name} after a header of {self._header}: check dtype= and header="
            )
        tokens = num_bytes // int(self._dtype.itemsize)
        return max(0, (tokens - self._tokens) // self._stride + 1)

    @override
    def _form(self, shard: Shard, facts: Facts) -> Form | None:
        return UNPACKED if self._unpack and shard.name.endswith(".zst") else None

    @override
    def _read(self, shard: Shard, facts: Facts) -> Reader:
        if not self._unpack and shard.name.endswith(".zst"):
            file = framed(self._files, shard, self._named(shard))
            return _InFrames(file, self._dtype, self._header, self._tokens, self._stride)
        mapped: Any = self._files.open(shard, self._form(shard, facts)).mapped()
        if len(mapped) != facts["bytes"]:
            raise ValueError(
                f"{self._named(shard)} has {len(mapped)} bytes, but had {facts['bytes']} when it "
                "was indexed"
            )
        tokens = np.frombuffer(mapped, self._dtype, offset=self._header)
        return _Tokens(tokens, self._tokens, self._stride)


class _Tokens:
    def __init__(self, tokens: "np.ndarray[Any, Any]", length: int, stride: int) -> None:
        self._tokens, self._length, self._stride = tokens, length, stride

    def __getitem__(self, index: int, /) -> Tensor:
        start = index * self._stride
        return torch.from_numpy(self._tokens[start : start + self._length].astype(np.int64))


class _InFrames:
    def __init__(
        self, file: FramedFile, dtype: "np.dtype[Any]", header: int, length: int, stride: int
    ) -> None:
        self._file, self._dtype, self._header = file, dtype, header
        self._length, self._stride = length, stride

    def __getitem__(self, index: int, /) -> Tensor:
        start = self._header + index * self._stride * self._dtype.itemsize
        content = self._file.read(start, start + self._length * self._dtype.itemsize)
        return torch.from_numpy(np.frombuffer(content, self._dtype).astype(np.int64))
