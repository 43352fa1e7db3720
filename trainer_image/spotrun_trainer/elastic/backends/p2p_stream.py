"""Messages from one process to another, waited for in a thread, with the interface of torch's Work.

gloo's collectives can be waited for in slices. A message cannot: a wait that times out makes gloo
close all connections of the group. So a thread waits for it, however long that takes, and the
caller waits for the thread.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from datetime import timedelta
from typing import Any

from torch import Tensor

from spotrun_trainer.elastic import background_call

_AT_ONCE = 4  # each costs a round trip, which overlaps the others'
MESSAGE = timedelta(seconds=1800)  # as for collectives; that each may take
EVALUATION = timedelta(days=7)
"""Longer than any evaluation, which a sender may have to end first. Losses are noticed
elsewhere."""


class Awaited:
    """A call in a thread, with the interface of torch's Work."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._ended = background_call.begin(function)

    def is_completed(self) -> bool:
        """Whether it has ended, with or without an error."""
        return self._ended.done()

    def wait(self, timeout: timedelta) -> None:
        """Return once it has succeeded; raises RuntimeError on a time-out, as torch's Work does."""
        if not wait([self._ended], timeout.total_seconds()).done:
            raise RuntimeError("it takes longer")
        self._ended.result()


def message(begun: Any) -> Awaited:  # noqa: ANN401 - torch's, untyped
    """Wait for a message that has begun, and so has its place among others to the same process."""
    return Awaited(lambda: begun.wait(MESSAGE))


def stream(
    begin: Callable[[Tensor], Any], tensors: Iterable[Tensor], most: timedelta | None = None
) -> Awaited:
    """Call `begin` to send or receive each tensor; a few are in flight at a time."""
    return Awaited(lambda: _stream(begin, tensors, most or MESSAGE))


def _stream(begin: Callable[[Tensor], Any], tensors: Iterable[Tensor], most: timedelta) -> None:
    under_way = deque[Any]()
    for tensor in tensors:
        if len(under_way) == _AT_ONCE:
            under_way.popleft().wait(most)
        under_way.append(begin(tensor))
    for one in under_way:
        one.wait(most)
