"""The blocks of a model: what is sharded, checkpointed or compiled one by one."""

from collections.abc import Iterable, Iterator

from torch import nn

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)  # which cannot be called


def blocks_of(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Yield the entries of lists of modules (`nn.ModuleList`), of which models are sequences.

    A list within an entry (the experts of a layer, say) is a part of that: blocks do not overlap.
    Entries that are containers themselves stand for what is in them. Each is yielded once.
    """
    seen = set[int]()
    for module in modules:
        for block in _entries(module) if isinstance(module, nn.ModuleList) else _within(module):
            if id(block) not in seen:
                seen.add(id(block))
                yield block


def _within(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        yield from _entries(child) if isinstance(child, nn.ModuleList) else _within(child)


def _entries(container: nn.Module) -> Iterator[nn.Module]:
    for entry in container.children():
        yield from _entries(entry) if isinstance(entry, _CONTAINERS) else (entry,)
