"""Messages from one process to another, in a thread, with the face of torch's works.

gloo's collectives can be waited for in slices. A message cannot: a wait that ends without it makes
gloo give up all connections of the group. So a thread waits for it, however long that takes, and
who needs it waits for the thread.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from datetime import timedelta
from typing import Any

from torch import Tensor

from spotrun_trainer.elastic import background_call

_AT_ONCE = 4  # each costs a round trip, which the others hide
MESSAGE = timedelta(seconds=1800)  # as for collectives
EVALUATION = timedelta(days=7)
"""Who sends may have one to end before. Longer than any: who is lost is noticed anyhow."""


class TensorStream:
    """`say` begins to send, or to receive, one tensor; the next is taken when there is room."""

    def __init__(
        self,
        say: Callable[[Tensor], Any],
        tensors: Iterable[Tensor],
        most: timedelta | None = None,
    ) -> None:
        self._say = say
        self._most = most or MESSAGE  # that each may take
        self._ended = background_call.begin(lambda: self._run(tensors))

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.done()

    def wait(self, timeout: timedelta) -> None:
        """Return once it has ended well; raises RuntimeError if it has not ended, as torch's do."""
        if not wait([self._ended], timeout.total_seconds()).done:
            raise RuntimeError("it takes longer")
        self._ended.result()

    def _run(self, tensors: Iterable[Tensor]) -> None:
        under_way = deque[Any]()
        for tensor in tensors:
            if len(under_way) == _AT_ONCE:
                under_way.popleft().wait(self._most)
            under_way.append(self._say(tensor))
        for message in under_way:
            message.wait(self._most)
