"""Refusal of models that torch has wrapped or sharded for a fixed set of processes."""

import gc
from collections.abc import Iterable

from torch import distributed, nn

_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel"}
"""Wrappers by name, for importing the second takes a quarter of a second."""


def check_plain(name: str, thing: object) -> None:
    """Raise ValueError if a module is or contains what `step.update` cannot work with."""
    if not isinstance(thing, nn.Module):
        return
    for part in thing.modules():
        if kind := _wrapper(type(part)):
            raise ValueError(_refusal(name, kind))
    if any(hasattr(parameter, "device_mesh") for parameter in thing.parameters()):
        raise ValueError(
            f"{name} has parameters that torch has sharded (DTensor), which cannot be tracked yet: "
            "with Run(shards=...) let each process hold its part as plain tensors"
        )


def check_unwrapped(things: Iterable[object]) -> None:
    """Raise ValueError if a tracked module was put into a wrapper elsewhere."""
    if not distributed.is_initialized():  # no wrapper is made without
        return
    modules = [thing for thing in things if isinstance(thing, nn.Module)]
    tracked = {id(part) for module in modules for part in module.modules()}
    for one in gc.get_objects():
        kind = _wrapper(type(one))
        if not kind or not isinstance(one, nn.Module):
            continue
        for name, part in one.named_modules():
            if name and id(part) in tracked:
                raise ValueError(_refusal(f"a tracked {type(part).__name__}", kind))


def _wrapper(kind: type) -> str:
    return next((base.__name__ for base in kind.__mro__ if base.__name__ in _WRAPPERS), "")


def _refusal(name: str, kind: str) -> str:
    return (
        f"{name} is wrapped in {kind}, which sums gradients over the processes that were there "
        "when it was made, and step.update does so over those that are there now: leave the "
        "wrapper and init_process_group out, write model = run.prepare(model), and give that to "
        "run.track(...)"
    )
