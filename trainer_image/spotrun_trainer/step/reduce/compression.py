"""The ways to sum gradients over copies in fewer bytes, as `Run(compress=...)` names them.

The sums have the same bits in every process, because each computes them in the same order from what
all have received. A process keeps what it leaves out of a sum, and adds it to its next gradients
(error feedback: Seide et al. 2014, Karimireddy et al. 2019).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch.amp import GradScaler

from spotrun_trainer.step.reduce.exchange import Codec
from spotrun_trainer.step.reduce.low_rank import LowRankCodec
from spotrun_trainer.step.reduce.narrow import NarrowCodec
from spotrun_trainer.step.reduce.sparse import SparseCodec

Name = Literal["bf16", "powersgd", "topk"]


class Compression(Protocol):
    """A way to send gradients in fewer bytes."""

    def codec(self, shapes: Sequence[torch.Size]) -> Codec:
        """Return the codec for a flat tensor that consists of tensors of these shapes."""


@dataclass(frozen=True)
class BF16:
    """Gradients and their sums are rounded to bf16: half of the bytes of fp32."""

    def codec(self, shapes: Sequence[torch.Size]) -> Codec:
        """Return the codec that rounds."""
        return NarrowCodec(shapes)


@dataclass(frozen=True)
class PowerSGD:
    """Each matrix of gradients is sent as a product of two thin ones (Vogels et al. 2019).

    rank   the number of columns of each; torch's `matrix_approximation_rank`. A matrix whose thin
    ones have more than half of its numbers is sent as it is, like all vectors
    """

    rank: int = 4

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"{self}: the rank must be at least 1")

    def codec(self, shapes: Sequence[torch.Size]) -> Codec:
        """Return the codec that factorizes."""
        return LowRankCodec(shapes, self.rank)


@dataclass(frozen=True)
class TopK:
    """Each process sends only its largest gradients, with their positions (Lin et al. 2018).

    ratio   the share of all gradients that one process sends. A process receives that of each
            other process, so the bytes grow with the number of processes: with 0.01 they are those
            of plain sums at 100 processes
    """

    ratio: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ValueError(f"{self}: give a share of the gradients, such as 0.01")

    def codec(self, shapes: Sequence[torch.Size]) -> Codec:
        """Return the codec that selects."""
        return SparseCodec(shapes, self.ratio)


_BY_NAME: dict[str, Compression] = {"bf16": BF16(), "powersgd": PowerSGD(), "topk": TopK()}


def compression_of(
    compress: "Name | Compression | None",
    *,
    deterministic: bool,
    shards: int,
    tensor: int,
) -> Compression | None:
    """Return the compression that a run asks for; raises ValueError if it is not possible."""
    if compress is None:
        return None
    if deterministic:
        raise ValueError(
            "deterministic=True and compress= exclude each other: what a sum leaves out depends "
            "on the number of processes, so the bits would depend on it as well"
        )
    if max(shards, tensor) > 1:
        raise ValueError(
            "compress= cannot be used where several processes of a copy hold the same parameter, "
            "as with Parallel(tensor=...), or may do so, as with shards=: each keeps what it did "
            "not send, a replacement starts without that, and so the parameter would no longer be "
            "the same in all: use Parallel(shard=...) or Parallel(pipeline=...)"
        )
    if isinstance(compress, str):
        found = _BY_NAME.get(compress)
        if found is None:
            raise ValueError(
                f"compress={compress!r}: give one of {', '.join(get_args(Name))}, or a value such "
                "as PowerSGD(rank=2) or TopK(ratio=0.001)"
            )
        return found
    return compress


def check_unscaled(compression: Compression | None, things: Iterable[object]) -> None:
    """Raise ValueError if gradients are scaled, by another factor from time to time."""
    if compression is not None and any(isinstance(one, GradScaler) for one in things):
        raise ValueError(
            "compress= cannot be used with a GradScaler: what a step leaves out is added to the "
            "next one, which may have another scale: train in bfloat16, which needs no scaler"
        )
