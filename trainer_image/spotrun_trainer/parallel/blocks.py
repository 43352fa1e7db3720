"""The blocks of a model: what is sharded, checkpointed or compiled one by one."""

from collections.abc import Iterable, Iterator

from torch import nn


def blocks_of(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Yield the entries of lists of modules (`nn.ModuleList`), of which models are sequences.

    Each is yielded once.
    """
    seen = set[int]()
    for module in modules:
        for part in module.modules():
            for block in part if isinstance(part, nn.ModuleList) else ():
                if id(block) not in seen:
                    seen.add(id(block))
                    yield block
