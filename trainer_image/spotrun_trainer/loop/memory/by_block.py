"""The memory of each block of a model, measured during a microbatch's forward and backward pass.

A pipeline divides the blocks among stages: these figures show how much of a microbatch a stage
keeps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from spotrun_trainer.loop.memory.live_bytes import LiveBytes


class BlockBytes:
    """Notes the live bytes as each block of a sequence begins and ends, forward and backward."""

    def __init__(
        self, modules: Sequence[nn.Module], blocks: Sequence[nn.Module], live: LiveBytes
    ) -> None:
        self._live = live
        self._modules = modules  # the modules that contain blocks
        self._blocks = blocks
        self._result = 0
        self._before: int | None = None  # live bytes as the first block begins
        self._begun: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        self._work: dict[int, int] = {}
        self._passed = 0
        self._ended = 0  # live bytes as the last block ends
        self._in_backward: int | None = None  # the block whose backward pass runs
        self._is_a_sequence = True  # no block was called twice

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the passes within the block."""
        handles: list[RemovableHandle] = []
        for number, block in enumerate(self._blocks):
            handles.append(block.register_forward_pre_hook(partial(self._begins, number)))
            handles.append(block.register_forward_hook(partial(self._ends, number)))
        handles += [one.register_forward_hook(self._returns) for one in self._modules]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def found(self) -> dict[str, int]:
        """Return the figures; empty unless every block had one forward and one backward pass.

        before  kept by the modules in front of the blocks
        kept    the most that a block keeps from its forward pass to its backward pass
        work    the most that a block's backward pass holds in addition
        after   the most that exists beyond what the blocks and all modules before them keep
        passed  the most that a block passes on
        result  the most that the model returns
        """
        self._end_of_backward()
        is_whole = len(self._work) == len(self._blocks)
        if not self._blocks or not is_whole or not self._is_a_sequence:
            return {}
        return {
            "before": self._before or 0,
            "kept": max(self._kept.values()),
            "work": max(self._work.values()),
            "after": max(0, self._live.most - self._ended),
            "passed": self._passed,
            "result": self._result,
        }

    def _begins(self, number: int, _block: nn.Module, given: Any) -> None:  # noqa: ANN401 - torch's
        self._is_a_sequence &= number not in self._begun
        if self._before is None:
            self._before = self._live.now
            _when_gone_back(given, self._end_of_backward)
        self._begun[number] = self._live.now

    def _ends(self, number: int, _block: nn.Module, _given: Any, result: Any) -> None:  # noqa: ANN401
        self._ended = self._live.now
        self._kept[number] = self._ended - self._begun[number]
        self._passed = max(self._passed, _bytes_in(result))
        _when_gone_back(result, partial(self._goes_back, number))

    def _returns(self, _module: nn.Module, _given: Any, result: Any) -> None:  # noqa: ANN401
        self._result = max(self._result, _bytes_in(result))

    def _goes_back(self, number: int) -> None:
        """Note that a block's backward pass begins, and that of the next block has ended."""
        self._end_of_backward()
        self._in_backward = number
        self._live.restart()

    def _end_of_backward(self) -> None:
        number, self._in_backward = self._in_backward, None
        if number is not None:
            kept = self._begun[number] + self._kept[number]
            self._work[number] = max(0, self._live.recent - kept)


def called_behind(
    modules: Iterable[nn.Module], blocks: Sequence[nn.Module]
) -> Callable[[], list[nn.Module]]:
    """Watch a forward pass; the returned function ends that, and returns the modules after a block.

    Only modules outside blocks count, such as a model's head and its last norm.
    """
    within = {id(part) for block in blocks for part in block.modules()}
    every = {id(part): part for module in modules for part in module.modules()}
    outside = [part for key, part in every.items() if key not in within]
    is_behind = False
    first_calls: dict[int, bool] = {}

    def passed(*_: object) -> None:
        nonlocal is_behind
        is_behind = True

    def called(part: nn.Module, _given: object) -> None:
        first_calls.setdefault(id(part), is_behind)

    handles = [block.register_forward_hook(passed) for block in blocks]
    handles += [part.register_forward_pre_hook(called) for part in outside]

    def behind() -> list[nn.Module]:
        for handle in handles:
            handle.remove()
        return [part for part in outside if first_calls.get(id(part), False)]

    return behind


def _bytes_in(value: object) -> int:
    tensors = [one for one in tree_leaves(value) if isinstance(one, Tensor)]
    return sum(one.numel() * one.element_size() for one in tensors)


def _when_gone_back(value: object, call: Callable[[], None]) -> None:
    """Call a function once, when the gradient of a value is known."""
    for one in tree_leaves(value):
        if isinstance(one, Tensor) and one.requires_grad:
            one.register_hook(lambda _gradient: call())  # type: ignore[no-untyped-call]
            return
