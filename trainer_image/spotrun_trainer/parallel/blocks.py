"""The blocks of a model: the modules that are sharded, checkpointed or compiled one by one."""

from collections.abc import Iterable, Iterator

from torch import nn

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)  # which cannot be called


def blocks_of(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Yield the entries of a model's lists of modules.

    A list is an `nn.ModuleList`, or an `nn.ModuleDict` by numbers, as in torchtitan's models, where
    the other layers keep their names if some are removed. A list within an entry (such as the
    experts of a layer) is a part of that entry: blocks do not overlap. Entries that are containers
    themselves stand for their content. Each is yielded once.
    """
    seen = set[int]()
    for module in modules:
        for block in _entries(module) if _is_list(module) else _within(module):
            if id(block) not in seen:
                seen.add(id(block))
                yield block


def _is_list(module: nn.Module) -> bool:
    if isinstance(module, nn.ModuleDict):
        return len(module) > 0 and all(name.isdecimal() for name in module)
    return isinstance(module, nn.ModuleList)


def _within(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        yield from _entries(child) if _is_list(child) else _within(child)


def _entries(container: nn.Module) -> Iterator[nn.Module]:
    for entry in container.children():
        yield from _entries(entry) if isinstance(entry, _CONTAINERS) else (entry,)
