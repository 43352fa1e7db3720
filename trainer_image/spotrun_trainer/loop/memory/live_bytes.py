"""The bytes of all live tensors, and their maximum: below autograd, for any device.

The class `torch.distributed._tools.MemTracker` does more and is not public; this is the part that a
plan needs, and a test compares it with the CPU allocations that torch's profiler sees.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's, untyped
    """Counts the storages that operations make while this mode is on, until they are freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.most = 0
        self.recent = 0  # the most since `restart`
        self._known: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}

    def ignore(self, tensor: Tensor) -> None:
        """Stop counting a tensor, because it is counted elsewhere, such as gradients."""
        self._forget(tensor.untyped_storage()._cdata)  # noqa: SLF001 - its identity

    def restart(self) -> None:
        """Start again to record the maximum in `recent`."""
        self.recent = self.now

    @override
    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        given = {_key(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and _key(one) not in given:
                self._note(one.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata  # noqa: SLF001
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = weakref.ref(storage, lambda _gone: self._forget(key)), size
        self.now += size
        self.most = max(self.most, self.now)
        self.recent = max(self.recent, self.now)

    def _forget(self, key: int) -> None:
        _, size = self._known.pop(key, (None, 0))
        self.now -= size


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001
