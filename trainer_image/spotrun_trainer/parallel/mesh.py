"""torch's view of one copy of the model: a DeviceMesh over its processes."""

from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from spotrun_trainer.parallel.degrees import Parallel

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def make_mesh(device: torch.device, plan: Parallel) -> "DeviceMesh":
    """Return the mesh of this process's copy; the default group is that copy."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415 - takes long

    group: Any = distributed.group.WORLD
    name = distributed.distributed_c10d._world.pg_names[group]  # noqa: SLF001 - the group does not know its name
    group.name_as(name)
    names, sizes = zip(*plan.dimensions.items(), strict=True)
    return init_device_mesh(device.type, sizes, mesh_dim_names=names)


def is_within(mesh: "DeviceMesh", whole: "DeviceMesh") -> bool:
    """Whether a mesh is the whole one, or has some of its dimensions."""
    names, all_names = mesh.mesh_dim_names, whole.mesh_dim_names
    if names is None or all_names is None or not set(names) <= set(all_names):
        return False
    return mesh == (whole if names == all_names else whole[names])
