"""A cache of a state's layout, valid while its tensors stay: to examine thousands takes time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter, eq

from torch import Tensor

from spotrun_trainer.state.flatten import Flat, Layout

_FACTS: Sequence[Callable[[Tensor], object]] = (
    *(Tensor.data_ptr, Tensor.size, Tensor.is_contiguous),
    *(attrgetter("dtype"), attrgetter("device")),
)
"""The facts that determine a layout. Each may change while the tensor object stays the same:
`.data` can be set, and methods such as `t_` and `resize_` work in place. Strides, which take longer
to read, follow from the size if a tensor is contiguous."""


class LastFlat:
    """The facts of the last state's tensors, without their content and without references."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._facts: list[tuple[object, ...]] = []
        self._strides: dict[str, tuple[int, ...]] = {}  # of those that are scattered
        self._layout: Layout | None = None
        self._volatile = frozenset[str]()

    @property
    def is_none(self) -> bool:
        """Whether no state was remembered yet."""
        return self._layout is None

    def complete(self, flat: Flat) -> bool:
        """Give a state the last one's layout if the tensors are alike; return whether they are."""
        if self._layout is None or list(flat.tensors) != self._names:
            return False
        try:
            # One after the other: a list of them would start a garbage collection over all objects,
            # for a quarter of a second.
            is_like = all(map(eq, _facts(flat.tensors.values()), self._facts))
            is_like = is_like and _strides(flat, self._strides) == self._strides
        except RuntimeError:  # a tensor is not dense now; flattening refuses it
            return False
        if is_like:
            flat.layout, flat.volatile = self._layout, self._volatile
        return is_like

    def remember(self, flat: Flat) -> None:
        """Determine a state's layout, and keep it."""
        self._layout, self._volatile = flat.layout, flat.volatile
        self._names = list(flat.tensors)
        self._facts = list(_facts(flat.tensors.values()))
        self._strides = _strides(flat, flat.layout.scattered | flat.layout.aliases.keys())


def _strides(flat: Flat, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    return {name: flat.tensors[name].stride() for name in names}


def _facts(tensors: Iterable[Tensor]) -> Iterator[tuple[object, ...]]:
    """Yield all facts of each tensor at once: most of the work is to find it in memory."""
    return zip(*(map(fact, tensors) for fact in _FACTS), strict=True)
