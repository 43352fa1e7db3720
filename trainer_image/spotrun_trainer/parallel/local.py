"""The part of a tensor that this process holds, of those that torch has divided (DTensor).

torch's class is not imported here: that takes long, and most trainings do not use it.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

PLAIN_KINDS = frozenset({Tensor, Parameter})
"""Known at once: thousands are asked about in a step."""


def is_divided(tensor: object) -> bool:
    """Whether other processes hold other parts of a tensor."""
    return type(tensor) not in PLAIN_KINDS and hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor; of an undivided one the tensor itself."""
    if not is_divided(tensor):
        return tensor
    divided: Any = tensor
    with torch.no_grad():  # else autograd would note it
        part: Tensor = divided.to_local()
    return part


def divided_by(tensor: Tensor) -> list[int | None]:
    """Return the dimension that each dimension of the mesh divides; None: all have the whole."""
    whole: Any = tensor
    return [one.dim if one.is_shard() else None for one in whole.placements]


def divided(part: Tensor, mesh: Any, shape: Sequence[int], by: Sequence[int | None]) -> Tensor:  # noqa: ANN401 - torch's
    """Return the tensor of such a shape of which this process holds a part."""
    from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: PLC0415 - see above

    return DTensor.from_local(
        part,
        mesh,
        [Replicate() if dim is None else Shard(dim) for dim in by],
        run_check=False,
        shape=torch.Size(shape),
        stride=_strides(shape),
    )


def like(part: Tensor, whole: Tensor) -> Tensor:
    """Return a part as torch has it where `whole` is divided, with the same division."""
    if not is_divided(whole):
        return part
    mesh: Any = whole
    return divided(part, mesh.device_mesh, whole.shape, divided_by(whole))


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
