"""What was found out about a state, as long as it holds: thousands of tensors take their time."""

from operator import attrgetter, is_
from weakref import ref

from torch import Tensor

from spotrun_trainer.state.flatten import Flat, Layout

_properties = attrgetter("dtype", "shape", "device", "requires_grad")


class LastFlat:
    """The last state, by its tensors: not their content, and without keeping them alive.

    A tensor object that is the same as before and lies where it lay is not asked for more: torch's
    optimizers keep theirs, while modules give out new ones each time.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._objects: list[ref[Tensor]] = []
        self._addresses: list[int] = []
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
        if addresses != self._addresses:
            return False
        known = [one() for one in self._objects]
        if not all(map(is_, tensors, known)):
            new = [index for index, one in enumerate(tensors) if one is not known[index]]
            if any(_properties_of(tensors[index]) != self._properties[index] for index in new):
                return False
            for index in new:
                self._objects[index] = ref(tensors[index])
        flat.layout, flat.volatile = self._layout, self._volatile
        return True

    def remember(self, flat: Flat) -> None:
        """Find out about a state, and keep that."""
        tensors = flat.tensors.values()
        self._layout, self._volatile = flat.layout, flat.volatile
        self._names = list(flat.tensors)
        self._objects = list(map(ref, tensors))
        self._addresses = list(map(Tensor.data_ptr, tensors))
        self._properties = list(map(_properties_of, tensors))


def _properties_of(tensor: Tensor) -> object:
    return _properties(tensor), tensor.stride()
