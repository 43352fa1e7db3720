"""What was found out about a state, as long as it holds: thousands of tensors take their time."""

from collections.abc import Sequence
from operator import attrgetter, is_
from weakref import ref

from torch import Tensor

from spotrun_trainer.state.flatten import Flat, Layout

_Shapes = tuple[Sequence[object], Sequence[object]]

_properties = attrgetter("dtype", "device", "requires_grad")


class LastFlat:
    """The last state, by its tensors: not their content, and without keeping them alive.

    A tensor object that is the same as before, with the same shape where it lay, is not asked for
    more: torch's optimizers keep theirs, while modules give out new ones each time.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._objects: list[ref[Tensor]] = []
        self._addresses: list[int] = []
        self._shapes: _Shapes = [], []
        self._properties: list[object] = []
        self._layout: Layout | None = None
        self._volatile = frozenset[str]()

    @property
    def is_none(self) -> bool:
        """Whether there was none yet."""
        return self._layout is None

    def complete(self, flat: Flat) -> bool:
        """Say of a state what was found out about the last one, if it has like tensors."""
        tensors = list(flat.tensors.values())
        if self._layout is None or list(flat.tensors) != self._names:
            return False
        try:
            addresses = list(map(Tensor.data_ptr, tensors))
        except RuntimeError:  # one is not dense now, and is refused for that
            return False
        if addresses != self._addresses or _shapes_of(tensors) != self._shapes:
            return False
        known = [one() for one in self._objects]
        if not all(map(is_, tensors, known)):
            new = [index for index, one in enumerate(tensors) if one is not known[index]]
            if any(_properties(tensors[index]) != self._properties[index] for index in new):
                return False
            for index in new:
                self._objects[index] = ref(tensors[index])
        flat.layout, flat.volatile = self._layout, self._volatile
        return True

    def remember(self, flat: Flat) -> None:
        """Find out about a state, and keep that."""
        tensors = list(flat.tensors.values())
        self._layout, self._volatile = flat.layout, flat.volatile
        self._names = list(flat.tensors)
        self._objects = list(map(ref, tensors))
        self._addresses = list(map(Tensor.data_ptr, tensors))
        self._shapes = _shapes_of(tensors)
        self._properties = list(map(_properties, tensors))


def _shapes_of(tensors: Sequence[Tensor]) -> _Shapes:
    """Sizes and strides: some methods (`t_`, `resize_`) change them of a tensor that stays."""
    return list(map(Tensor.size, tensors)), list(map(Tensor.stride, tensors))
