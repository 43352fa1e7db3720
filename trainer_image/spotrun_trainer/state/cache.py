"""What was found out about a state, as long as it holds: thousands of tensors take their time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, eq

from torch import Tensor

from spotrun_trainer.state.flatten import Flat, Layout

_FACTS: Sequence[Callable[[Tensor], object]] = (
    *(Tensor.data_ptr, Tensor.size, Tensor.stride),
    *map(attrgetter, ("dtype", "device", "requires_grad")),
)
"""All that a layout is made of. A tensor object that stays may change in each: `.data` can be set,
and methods such as `t_` and `resize_` work in place."""


class LastFlat:
    """The last state, by its tensors: not their content, and without keeping them alive."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._facts: list[tuple[object, ...]] = []
        self._layout: Layout | None = None
        self._volatile = frozenset[str]()

    @property
    def is_none(self) -> bool:
        """Whether there was none yet."""
        return self._layout is None

    def complete(self, flat: Flat) -> bool:
        """Say of a state what was found out about the last one, if it has like tensors."""
        if self._layout is None or list(flat.tensors) != self._names:
            return False
        try:
            # One after the other: a list of them would make the garbage collector go through all
            # objects that there are, for a quarter of a second.
            is_like = all(map(eq, _facts(flat.tensors.values()), self._facts))
        except RuntimeError:  # one is not dense now, and is refused for that
            return False
        if is_like:
            flat.layout, flat.volatile = self._layout, self._volatile
        return is_like

    def remember(self, flat: Flat) -> None:
        """Find out about a state, and keep that."""
        self._layout, self._volatile = flat.layout, flat.volatile
        self._names = list(flat.tensors)
        self._facts = list(_facts(flat.tensors.values()))


def _facts(tensors: Iterable[Tensor]) -> Iterator[tuple[object, ...]]:
    """Of each tensor all facts at a time: most of the work is to find it in memory."""
    return zip(*(map(fact, tensors) for fact in _FACTS), strict=True)
