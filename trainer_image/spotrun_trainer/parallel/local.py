"""The part of a tensor that this process holds, of those that torch has divided (DTensor).

torch's class is not imported here: the import takes long, and most trainings do not use it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from spotrun_trainer.parallel.division import Box, Cut, Division, box_of

PLAIN_KINDS = frozenset({Tensor, Parameter})
"""Known without a check: a step asks about thousands of tensors."""


def is_divided(tensor: object) -> bool:
    """Whether other processes hold other parts of a tensor."""
    return type(tensor) not in PLAIN_KINDS and hasattr(tensor, "device_mesh")


def is_sharded(tensor: object) -> bool:
    """Whether the processes of the mesh's dimension "shard" hold other parts of a tensor."""
    mesh: Any = getattr(tensor, "device_mesh", None)
    return mesh is not None and "shard" in mesh.mesh_dim_names


def local(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor; of an undivided one the tensor itself."""
    if not is_divided(tensor):
        return tensor
    divided: Any = tensor
    with torch.no_grad():  # else autograd would record it
        part: Tensor = divided.to_local()
    return part


def local_gradient(parameter: Tensor) -> Tensor | None:
    """Return the gradient of the part of a parameter that this process holds."""
    gradient = summed_gradient(parameter)
    return None if gradient is None else local(gradient)


def summed_gradient(parameter: Tensor) -> Tensor | None:
    """Return the gradient of a parameter, divided as the parameter is.

    If layers compute on parts of a sample, each of their processes has a summand of it: then this
    call is a collective among them.
    """
    gradient = parameter.grad
    if gradient is None or not (is_divided(gradient) and is_divided(parameter)):
        return gradient
    own: Any = parameter
    summand: Any = gradient
    if summand.placements == own.placements:
        return gradient
    with torch.no_grad():
        whole: Tensor = summand.redistribute(own.device_mesh, own.placements)
    return whole


def holders(tensor: Tensor, size: int) -> int:
    """Return how many of `size` processes of a copy hold the same part of a tensor."""
    if not is_divided(tensor):
        return size
    whole: Any = tensor
    sizes = zip(whole.device_mesh.shape, whole.placements, strict=True)
    num_parts = math.prod(int(count) for count, one in sizes if not one.is_replicate())
    return size // num_parts


def division_of(tensor: Tensor) -> Division:
    """Return the part of a divided tensor that this process holds.

    Raises ValueError if it is cut in another way than FSDP2 and tensor parallelism do. (torch's own
    `compute_local_shape_and_global_offset` is wrong for uneven parts that both of them cut.)
    """
    whole: Any = tensor
    mesh, shape = whole.device_mesh, tuple(whole.shape)
    by = dict(zip(mesh.mesh_dim_names, map(_divided_by, whole.placements), strict=True))
    box = box_of(shape, list(map(Cut, by.values(), mesh.get_coordinate(), mesh.shape)))
    own = local(tensor)
    held = tuple(own.shape)
    if held != box.shape and (own.numel() or box.numel):  # without elements: of any shape
        raise ValueError(
            f"a tensor of {[*shape]}, divided by {by}, has the part {[*held]} in this process, but "
            f"FSDP2 and tensor parallelism would leave {[*box.shape]}: divide it with these"
        )
    return Division(shape, by, Box(box.offsets, held))


def _divided_by(placement: Any) -> int | list[int] | None:  # noqa: ANN401 - torch's
    """Return the divided dimension, with the number of parts cut from it before; None: none."""
    # FSDP2's dimension comes first, though it cuts what tensor parallelism has cut: torch calls
    # that strided.
    if (factor := getattr(placement, "split_factor", None)) is not None:
        return [placement.dim, factor]
    return placement.dim if placement.is_shard() else None


def divided(part: Tensor, mesh: Any, shape: Sequence[int], by: Mapping[str, Any]) -> Tensor:  # noqa: ANN401 - torch's
    """Return the tensor of such a shape of which this process holds a part."""
    names = tuple(by)
    mesh = mesh if names == mesh.mesh_dim_names else mesh[names]
    return _divided(part, mesh, shape, [_placement(one) for one in by.values()])


def like(part: Tensor, whole: Tensor) -> Tensor:
    """Return a part as torch has it where `whole` is divided, with the same division."""
    if not is_divided(whole):
        return part
    other: Any = whole
    return _divided(part, other.device_mesh, other.shape, other.placements)


def _divided(part: Tensor, mesh: Any, shape: Sequence[int], placements: Sequence[Any]) -> Tensor:  # noqa: ANN401 - torch's
    from torch.distributed.tensor import DTensor  # noqa: PLC0415 - see above

    return DTensor.from_local(
        part,
        mesh,
        placements,
        run_check=False,
        shape=torch.Size(shape),
        stride=_strides(shape),
    )


def _placement(by: int | list[int] | None) -> Any:  # noqa: ANN401 - torch's
    from torch.distributed.tensor import Replicate, Shard  # noqa: PLC0415 - see above

    if by is None:
        return Replicate()
    if isinstance(by, int):
        return Shard(by)
    from torch.distributed.tensor.placement_types import _StridedShard  # noqa: PLC0415

    dim, factor = by
    return _StridedShard(dim, split_factor=factor)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
