"""Refusal of models that torch has wrapped or sharded for a fixed set of processes."""

from collections.abc import Iterable
from typing import Any

from torch import distributed, nn

from spotrun_trainer.parallel.local import is_divided
from spotrun_trainer.parallel.mesh import is_within
from spotrun_trainer.state.instances import derived_from, instances_of

_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel"}
"""Wrappers by name, because importing the second takes a quarter of a second."""


def check_plain(name: str, thing: object, mesh: object = None) -> None:
    """Raise ValueError if a module is or contains what `step.update` cannot work with.

    `mesh` are the processes of one copy, where torch may divide tensors among them.
    """
    if not isinstance(thing, nn.Module):
        return
    for part in thing.modules():
        if kind := _wrapper(type(part)):
            raise ValueError(_refusal(name, kind))
    whole: Any = mesh
    found: list[Any] = [one for one in thing.parameters() if is_divided(one)]
    meshes = {id(one.device_mesh): one.device_mesh for one in found}
    if any(whole is None or not is_within(one, whole) for one in meshes.values()):
        raise ValueError(
            f"{name} has parameters that torch has divided (DTensor) over other processes than "
            "those of run.mesh: make the run with Run(parallel=Parallel(shard=...)) first, and "
            "give its run.mesh to fully_shard"
        )


def check_unwrapped(things: Iterable[object]) -> None:
    """Raise ValueError if a tracked module was put into a wrapper elsewhere."""
    if not distributed.is_initialized():  # no wrapper can be made before
        return
    modules = [thing for thing in things if isinstance(thing, nn.Module)]
    tracked = {id(part) for module in modules for part in module.modules()}
    wrappers = [kind for kind in derived_from(nn.Module) if kind.__name__ in _WRAPPERS]
    for one in instances_of(wrappers):
        assert isinstance(one, nn.Module), "the wrappers are modules"
        for name, part in one.named_modules():
            if name and id(part) in tracked:
                kind = _wrapper(type(one))
                raise ValueError(_refusal(f"a tracked {type(part).__name__}", kind))


def _wrapper(kind: type) -> str:
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in _WRAPPERS), "")


def _refusal(name: str, kind: str) -> str:
    return (
        f"{name} is wrapped in {kind}, which sums gradients over the processes that existed when "
        "it was made, but step.update sums them over the present ones: remove the wrapper and "
        "init_process_group, write model = run.prepare(model), and give that to run.track(...)"
    )
