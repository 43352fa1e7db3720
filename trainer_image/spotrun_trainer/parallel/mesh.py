"""torch's view of one copy of the model: a DeviceMesh over its processes."""

from typing import TYPE_CHECKING, Any

import torch
from torch import distributed, nn

from spotrun_trainer.parallel.plan import Parallel

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def make_mesh(device: torch.device, plan: Parallel) -> "DeviceMesh":
    """Return the mesh of this process's copy; the default group is that copy."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415 - takes long

    group: Any = distributed.group.WORLD
    name = distributed.distributed_c10d._world.pg_names[group]  # noqa: SLF001 - given to it, unknown to it
    group.name_as(name)
    return init_device_mesh(device.type, (plan.shard,), mesh_dim_names=("shard",))


def shard(model: nn.Module, mesh: "DeviceMesh") -> None:
    """Divide a model among the processes of a mesh: each block by itself, then all that is left.

    Blocks are the entries of lists of modules (`nn.ModuleList`), of which a model is a sequence.
    """
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - takes long

    for part in model.modules():
        if isinstance(part, nn.ModuleList):
            for block in part:
                fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def sharded_parts(module: nn.Module) -> list[Any]:
    """Return the parts of a module that torch shards (`FSDPModule`)."""
    return [
        part
        for part in module.modules()
        if any(base.__name__ == "FSDPModule" for base in type(part).__mro__)
    ]


def sum_gradients(module: nn.Module) -> None:
    """Let torch add up the gradients of a copy's processes; they are divided once, by `update`."""
    for part in sharded_parts(module):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)


def drop_whole_tensors(module: nn.Module) -> None:
    """Drop the whole tensors that a forward pass without a backward leaves behind."""
    for part in sharded_parts(module):
        part.reshard()
